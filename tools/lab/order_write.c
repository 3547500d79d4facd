/* SPDX-License-Identifier: MIT */
/*
 * order_write.c - the order of calls that a run makes, as a file.  Calls of one thread only: the order in
 * which records are written is the order of the calls.
 *
 * An object's number is the lowest that was free when it was allocated, so a file has as many numbers as
 * objects were ever out at one time.  The header is written last: a run that ends early leaves no order.
 */
#include "lab/order.h"
#include "lab/trace_live.h"
#include "look/target.h"
#include "stook/command.h"

#include "os/topology.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct order_writer {
    FILE *stream;
    const char *file;
    struct trace_live live; /* numbers of objects that are out, by address */
    uint32_t *free;         /* a heap of numbers below `objects` that are free: the lowest first */
    uint32_t frees, objects, room;
    uint64_t records;
};

/* ---- numbers -------------------------------------------------------------------------------- */

static void order_swap(uint32_t *heap, uint32_t a, uint32_t b)
{
    uint32_t number = heap[a];

    heap[a] = heap[b];
    heap[b] = number;
}

static uint32_t order_number(struct order_writer *w)
{
    uint32_t *heap = w->free, lowest, at = 0, child;

    if (w->frees == 0)
        return w->objects++;
    lowest = heap[0];
    heap[0] = heap[--w->frees];
    while ((child = 2 * at + 1) < w->frees) {
        child += child + 1 < w->frees && heap[child + 1] < heap[child];
        if (heap[at] <= heap[child])
            break;
        order_swap(heap, at, child);
        at = child;
    }
    return lowest;
}

static void order_give_back(struct order_writer *w, uint32_t number)
{
    uint32_t at = w->frees++;

    if (w->frees > w->room) {
        w->room = w->room ? 2 * w->room : 1024;
        w->free = target_need(realloc(w->free, w->room * sizeof(w->free[0])));
    }
    w->free[at] = number;
    for (; at > 0 && w->free[at] < w->free[(at - 1) / 2]; at = (at - 1) / 2)
        order_swap(w->free, at, (at - 1) / 2);
}

/* ---- records -------------------------------------------------------------------------------- */

static void order_record(struct order_writer *w, const struct lab_actor *actor, uint32_t object,
                         uint8_t op, uint8_t flags)
{
    const struct order_record record = {
        .object = object, .cpu = (uint16_t)actor->cpu, .op = op, .flags = flags};

    w->records++;
    fwrite(&record, sizeof(record), 1, w->stream); /* order_end() sees what went wrong */
}

void order_note_alloc(struct lab_actor *actor, const void *object)
{
    struct order_writer *w = actor->lab->order_out;
    struct trace_object entry = {.address = (uintptr_t)object, .bytes = order_number(w)};

    trace_live_put(&w->live, &entry);
    order_record(w, actor, (uint32_t)entry.bytes, ORDER_ALLOC, actor->waits ? 0 : ORDER_NOWAIT);
}

void order_note_free(struct lab_actor *actor, const void *object)
{
    struct order_writer *w = actor->lab->order_out;
    struct trace_object entry;

    if (!trace_live_take(&w->live, (uintptr_t)object, &entry))
        die("CPU %u frees an object that no record allocated", actor->cpu);
    order_record(w, actor, (uint32_t)entry.bytes, ORDER_FREE, 0);
    order_give_back(w, (uint32_t)entry.bytes);
}

/* ---- begin and end -------------------------------------------------------------------------- */

static int order_failed(const struct order_writer *w)
{
    return complain(STATUS_FAILED, "%s cannot be written: %s", w->file, strerror(errno));
}

int order_begin(struct lab *lab, const char *file)
{
    static const struct order_header unfinished;
    struct order_writer *w = lab_memory(lab, sizeof(*w));

    w->file = file;
    w->stream = fopen(file, "wbe");
    if (!w->stream)
        return order_failed(w);
    lab->order_out = w;
    trace_live_start(&w->live);
    return fwrite(&unfinished, sizeof(unfinished), 1, w->stream) == 1 ? 0 : order_failed(w);
}

int order_end(struct lab *lab)
{
    struct order_writer *w = lab->order_out;
    struct order_header header = {.version = 1};
    bool written;

    if (!w)
        return 0;
    memcpy(header.magic, "STKORDER", sizeof(header.magic));
    header.cpus = topology.cpus;
    header.object_size = lab->options->size;
    header.objects = w->objects;
    header.records = w->records;
    written = !ferror(w->stream) && fseek(w->stream, 0, SEEK_SET) == 0 &&
              fwrite(&header, sizeof(header), 1, w->stream) == 1;
    written &= fclose(w->stream) == 0;
    trace_live_end(&w->live);
    free(w->free);
    lab->order_out = NULL;
    return written ? 0 : order_failed(w);
}
