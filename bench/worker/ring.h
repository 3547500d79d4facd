/* SPDX-License-Identifier: MIT */
/*
 * A ring of pointers from one thread to one other. Either side publishes its index every
 * RING_PUBLISH items only, and keeps a copy of the other's index, so a line travels between the
 * CPUs once for several items. Bare, it is the floor of the hand-over.
 */
#ifndef STOOK_BENCH_RING_H
#define STOOK_BENCH_RING_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define RING_SIZE 128
#define RING_PUBLISH 8
#define RING_LINE 128 /* two cache lines: the prefetcher of neighbours pulls pairs */

struct ring {
    _Alignas(RING_LINE) _Atomic uint64_t tail; /* items published by the producer */
    _Alignas(RING_LINE) _Atomic uint64_t head; /* items given back by the consumer */
    _Alignas(RING_LINE) void *item[RING_SIZE];
};

/* What one side knows; in that thread's registers. */
struct ring_end {
    uint64_t mine;
    uint64_t theirs;
};

static inline void ring_relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static inline void ring_put(struct ring *ring, struct ring_end *end, void *item)
{
    while (end->mine - end->theirs == RING_SIZE) {
        end->theirs = atomic_load_explicit(&ring->head, memory_order_acquire);
        if (end->mine - end->theirs == RING_SIZE)
            ring_relax();
    }
    ring->item[end->mine % RING_SIZE] = item;
    end->mine++;
    if (end->mine % RING_PUBLISH == 0)
        atomic_store_explicit(&ring->tail, end->mine, memory_order_release);
}

static inline void *ring_get(struct ring *ring, struct ring_end *end)
{
    while (end->mine == end->theirs) {
        end->theirs = atomic_load_explicit(&ring->tail, memory_order_acquire);
        if (end->mine == end->theirs)
            ring_relax();
    }
    void *item = ring->item[end->mine % RING_SIZE];
    end->mine++;
    if (end->mine % RING_PUBLISH == 0)
        atomic_store_explicit(&ring->head, end->mine, memory_order_release);
    return item;
}

#endif
