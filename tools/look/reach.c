/* SPDX-License-Identifier: MIT */
/*
 * reach.c - fills the tables of the library's own marking, and calls it.
 */
#include "look/reach.h"

#include "leak/heap.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Static_assert((int)REACH_LOST == (int)HEAP_LOST &&
                   (int)REACH_LOST_BEHIND == (int)HEAP_LOST_BEHIND &&
                   (int)REACH_PERHAPS == (int)HEAP_PERHAPS &&
                   (int)REACH_IN_REACH == (int)HEAP_IN_REACH,
               "the kinds are those of the marking");

struct reach {
    struct heap heap; /* leak/heap.h's; a run's `of` is its number */
    size_t room_runs, room_objects;
    uint64_t last; /* end of the last run's pages */
};

static void *reach_need(void *memory)
{
    if (!memory) {
        fputs("stook: out of memory\n", stderr);
        exit(1);
    }
    return memory;
}

struct reach *reach_new(uint64_t begin, uint64_t end,
                        const void *(*view)(void *context, uint64_t address, size_t size,
                                            void *buffer),
                        void *context)
{
    struct reach *reach = reach_need(calloc(1, sizeof(*reach)));

    reach->heap.reader = (struct heap_reader){view, context};
    reach->heap.begin = begin;
    reach->heap.end = end;
    reach->heap.page =
        reach_need(calloc(((end - begin) >> HEAP_PAGE_SHIFT) + 1, sizeof(*reach->heap.page)));
    reach->heap.buffer = reach_need(malloc(HEAP_CHUNK));
    reach->last = begin;
    return reach;
}

void reach_close(struct reach *reach)
{
    free(reach->heap.page);
    free(reach->heap.run);
    free(reach->heap.state);
    free(reach->heap.work);
    free(reach->heap.buffer);
    free(reach);
}

bool reach_add(struct reach *reach, uint64_t pages, uint64_t bytes, uint64_t start, uint64_t stride,
               uint64_t size, uint32_t objects, uint32_t number, const uint8_t *live)
{
    struct heap *heap = &reach->heap;

    if (pages < reach->last || bytes > heap->end - pages || pages >= heap->end ||
        heap->objects + (uint64_t)objects > UINT32_MAX / 2)
        return false;
    if (heap->runs == reach->room_runs) {
        reach->room_runs = reach->room_runs ? 2 * reach->room_runs : 1024;
        heap->run = reach_need(realloc(heap->run, reach->room_runs * sizeof(*heap->run)));
    }
    if (heap->objects + (size_t)objects > reach->room_objects) {
        reach->room_objects = 2 * reach->room_objects + objects + 4096;
        heap->state = reach_need(realloc(heap->state, reach->room_objects));
    }
    heap->run[heap->runs++] = (struct heap_run){
        start, stride, size, objects, heap->objects, (const void *)(uintptr_t)number};
    for (uint32_t i = 0; i < objects; i++)
        heap->state[heap->objects++] = live[i] ? HEAP_LIVE : 0;
    for (uint64_t at = pages; at < pages + bytes; at += (uint64_t)1 << HEAP_PAGE_SHIFT)
        heap->page[(at - heap->begin) >> HEAP_PAGE_SHIFT] = heap->runs;
    reach->last = pages + bytes;
    return true;
}

void reach_free(struct reach *reach, uint64_t address)
{
    uint32_t object;
    uint64_t inside;

    if (heap_find(&reach->heap, address, &object, &inside) && inside == 0)
        reach->heap.state[object] &= (uint8_t)~HEAP_LIVE;
}

void reach_start(struct reach *reach)
{
    reach->heap.work =
        reach_need(malloc(((size_t)reach->heap.objects + 1) * sizeof(*reach->heap.work)));
}

bool reach_live(const struct reach *reach, uint64_t word)
{
    uint32_t object;
    uint64_t inside;

    return heap_find(&reach->heap, word, &object, &inside) &&
           (reach->heap.state[object] & HEAP_LIVE);
}

void reach_root(struct reach *reach, const uint64_t *words, size_t n)
{
    heap_root(&reach->heap, words, n);
}

void reach_root_memory(struct reach *reach, uint64_t address, uint64_t size)
{
    heap_root_memory(&reach->heap, address, size);
}

void reach_settle(struct reach *reach)
{
    heap_settle(&reach->heap);
}

void reach_each(const struct reach *reach,
                void (*fn)(uint64_t address, uint64_t size, uint32_t number, uint32_t index,
                           enum reach_kind kind, void *arg),
                void *arg)
{
    for (uint32_t r = 0; r < reach->heap.runs; r++) {
        const struct heap_run *run = &reach->heap.run[r];
        for (uint32_t i = 0; i < run->objects; i++)
            if (reach->heap.state[run->first + i] & HEAP_LIVE)
                fn(run->start + i * run->stride, run->size, (uint32_t)(uintptr_t)run->of, i,
                   (enum reach_kind)heap_kind(reach->heap.state[run->first + i]), arg);
    }
}
