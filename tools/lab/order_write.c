/* SPDX-License-Identifier: MIT */
/*
 * order_write.c - the order of calls that a run makes, as a file.  Calls of one thread only: the order in
 * which records are written is the order of the calls.
 *
 * An object's number is the lowest that was free when it was allocated, so a file has as many numbers as
 * objects were ever out at one time.  The header is written last: a run that ends early leaves no order.
 */
#include "lab/order.h"
#include "lab/queue.h"
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
    struct queue free;      /* numbers below `objects`, the lowest first */
    uint32_t objects;
    uint64_t records;
};

/* ---- numbers -------------------------------------------------------------------------------- */

static bool order_lower(const void *arg, unsigned a, unsigned b)
{
    (void)arg;
    return a < b;
}

static uint32_t order_number(struct order_writer *w)
{
    return w->free.n > 0 ? queue_pop(&w->free) : w->objects++;
}

static void order_give_back(struct order_writer *w, uint32_t number)
{
    w->free.number = target_row(w->free.number, w->free.n, sizeof(w->free.number[0]));
    queue_push(&w->free, number);
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
    w->free.before = order_lower;
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
    free(w->free.number);
    lab->order_out = NULL;
    return written ? 0 : order_failed(w);
}
