/* SPDX-License-Identifier: MIT */
#include "leak/heap.h"

bool heap_find(const struct heap *heap, uint64_t address, uint32_t *object, uint64_t *inside)
{
    const struct heap_run *run;
    uint64_t offset, index;
    uint32_t number;

    if (address - heap->begin >= heap->end - heap->begin)
        return false;
    number = heap->page[(address - heap->begin) >> HEAP_PAGE_SHIFT];
    if (number == 0)
        return false;
    run = &heap->run[number - 1];
    offset = address - run->start; /* in the lead of a slab: larger than all of it */
    index = offset / run->stride;
    if (index >= run->objects)
        return false;
    *object = run->first + (uint32_t)index;
    *inside = offset - index * run->stride;
    return true;
}

const struct heap_run *heap_run_of(const struct heap *heap, uint32_t object)
{
    uint32_t low = 0, high = heap->runs;

    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (heap->run[middle].first <= object)
            low = middle;
        else
            high = middle;
    }
    return &heap->run[low];
}

/* What a word says in each of the passes; `from` is the object that has it. */
typedef void (*heap_word)(struct heap *heap, uint32_t from, uint32_t object, bool inside);

/* The program may write to this memory meanwhile, and tools have it poisoned in part. */
__attribute__((no_sanitize("thread", "address"))) static void heap_words(struct heap *heap,
                                                                         const uint64_t *words,
                                                                         size_t n, uint32_t from,
                                                                         heap_word pass)
{
    uint64_t inside;
    uint32_t object;

    for (size_t i = 0; i < n; i++)
        if (heap_find(heap, words[i], &object, &inside) && (heap->state[object] & HEAP_LIVE))
            pass(heap, from, object, inside != 0);
}

static void heap_memory(struct heap *heap, uint64_t address, uint64_t size, uint32_t from,
                        heap_word pass)
{
    uint64_t end = (address + size) & ~(uint64_t)7;

    address = (address + 7) & ~(uint64_t)7;
    while (address < end) {
        /* Up to a multiple of the chunk: a part that cannot be read takes no others with it. */
        uint64_t most = HEAP_CHUNK - address % HEAP_CHUNK;
        size_t n = (size_t)(end - address < most ? end - address : most);
        const uint64_t *words = heap->reader.view(heap->reader.context, address, n, heap->buffer);
        if (words)
            heap_words(heap, words, n / 8, from, pass);
        address += n;
    }
}

static void heap_push(struct heap *heap, uint32_t object)
{
    heap->work[heap->working++] = object;
}

static void heap_contents(struct heap *heap, uint32_t object, heap_word pass)
{
    const struct heap_run *run = heap_run_of(heap, object);

    heap_memory(heap, run->start + (object - run->first) * run->stride, run->size, object, pass);
}

static void heap_drain(struct heap *heap, heap_word pass)
{
    while (heap->working > 0)
        heap_contents(heap, heap->work[--heap->working], pass);
}

/* ---- the passes: each pushes an object once, at most ------------------------------------------ */

static void heap_reach(struct heap *heap, uint32_t from, uint32_t object, bool inside)
{
    (void)from;
    if (inside) {
        heap->state[object] |= HEAP_INSIDE;
    } else if (!(heap->state[object] & HEAP_REACHED)) {
        heap->state[object] |= HEAP_REACHED;
        heap_push(heap, object);
    }
}

static void heap_perhaps(struct heap *heap, uint32_t from, uint32_t object, bool inside)
{
    (void)from;
    (void)inside;
    if (heap->state[object] & (HEAP_REACHED | HEAP_POSSIBLE))
        return;
    heap->state[object] |= HEAP_POSSIBLE;
    heap_push(heap, object);
}

static bool heap_is_lost(const struct heap *heap, uint32_t object)
{
    return (heap->state[object] & (HEAP_LIVE | HEAP_REACHED | HEAP_POSSIBLE)) == HEAP_LIVE;
}

static void heap_point(struct heap *heap, uint32_t from, uint32_t object, bool inside)
{
    (void)inside;
    if (from != object && heap_is_lost(heap, object))
        heap->state[object] |= HEAP_POINTED;
}

static void heap_behind(struct heap *heap, uint32_t from, uint32_t object, bool inside)
{
    (void)from;
    (void)inside;
    if (!heap_is_lost(heap, object) || (heap->state[object] & (HEAP_HEAD | HEAP_BEHIND)))
        return;
    heap->state[object] |= HEAP_BEHIND;
    heap_push(heap, object);
}

static void heap_head(struct heap *heap, uint32_t object)
{
    heap->state[object] |= HEAP_HEAD;
    heap_push(heap, object);
    heap_drain(heap, heap_behind);
}

void heap_root(struct heap *heap, const uint64_t *words, size_t n)
{
    heap_words(heap, words, n, UINT32_MAX, heap_reach);
    heap_drain(heap, heap_reach);
}

void heap_root_memory(struct heap *heap, uint64_t address, uint64_t size)
{
    /* Contents are read into the same buffer: not before these words are done with. */
    heap_memory(heap, address, size, UINT32_MAX, heap_reach);
    heap_drain(heap, heap_reach);
}

void heap_settle(struct heap *heap)
{
    for (uint32_t i = 0; i < heap->objects; i++)
        if ((heap->state[i] & (HEAP_LIVE | HEAP_REACHED | HEAP_INSIDE)) ==
            (HEAP_LIVE | HEAP_INSIDE)) {
            heap_perhaps(heap, UINT32_MAX, i, true);
            heap_drain(heap, heap_perhaps);
        }
    for (uint32_t i = 0; i < heap->objects; i++)
        if (heap_is_lost(heap, i))
            heap_contents(heap, i, heap_point);
    for (uint32_t i = 0; i < heap->objects; i++)
        if (heap_is_lost(heap, i) && !(heap->state[i] & HEAP_POINTED))
            heap_head(heap, i);
    /* Rings, which nothing points to from outside: one of each is its head. */
    for (uint32_t i = 0; i < heap->objects; i++)
        if (heap_is_lost(heap, i) && !(heap->state[i] & (HEAP_HEAD | HEAP_BEHIND)))
            heap_head(heap, i);
}

enum heap_kind heap_kind(uint8_t state)
{
    return state & HEAP_REACHED    ? HEAP_IN_REACH
           : state & HEAP_POSSIBLE ? HEAP_PERHAPS
           : state & HEAP_BEHIND   ? HEAP_LOST_BEHIND
                                   : HEAP_LOST;
}
