/* SPDX-License-Identifier: MIT */
/*
 * A ring of pointers from one thread to one other. Either side publishes its index every
 * RING_PUBLISH items only, and keeps a copy of the other's index, so a line travels between the
 * CPUs once for several items. Bare, it is the floor of the hand-over.
 */
#ifndef STOOK_BENCH_RING_H
#define STOOK_BENCH_RING_H

#include <sched.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define RING_SIZE 128
#define RING_PUBLISH 8
#define RING_PATIENCE 4096 /* looks at the other side's index before the CPU is offered to others */
#define RING_LINE 128      /* two cache lines: the prefetcher of neighbours pulls pairs */

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

/* Where CPUs are shared, the other side may have to be let run. */
static inline void ring_wait(unsigned *turn)
{
    if (++*turn % RING_PATIENCE)
        ring_relax();
    else
        sched_yield();
}

static inline void ring_put(struct ring *ring, struct ring_end *end, void *item)
{
    unsigned turn = 0;

    while (end->mine - end->theirs == RING_SIZE) {
        end->theirs = atomic_load_explicit(&ring->head, memory_order_acquire);
        if (end->mine - end->theirs == RING_SIZE)
            ring_wait(&turn);
    }
    ring->item[end->mine % RING_SIZE] = item;
    end->mine++;
    if (end->mine % RING_PUBLISH == 0)
        atomic_store_explicit(&ring->tail, end->mine, memory_order_release);
}

static inline void *ring_get(struct ring *ring, struct ring_end *end)
{
    unsigned turn = 0;

    while (end->mine == end->theirs) {
        end->theirs = atomic_load_explicit(&ring->tail, memory_order_acquire);
        if (end->mine == end->theirs)
            ring_wait(&turn);
    }
    void *item = ring->item[end->mine % RING_SIZE];
    end->mine++;
    if (end->mine % RING_PUBLISH == 0)
        atomic_store_explicit(&ring->head, end->mine, memory_order_release);
    return item;
}

/* n items, RING_SIZE at most, published together. */
static inline void ring_put_burst(struct ring *ring, struct ring_end *end, void *const *items,
                                  uint64_t n)
{
    unsigned turn = 0;

    while (end->mine + n - end->theirs > RING_SIZE) {
        end->theirs = atomic_load_explicit(&ring->head, memory_order_acquire);
        if (end->mine + n - end->theirs > RING_SIZE)
            ring_wait(&turn);
    }
    for (uint64_t i = 0; i < n; i++)
        ring->item[(end->mine + i) % RING_SIZE] = items[i];
    end->mine += n;
    atomic_store_explicit(&ring->tail, end->mine, memory_order_release);
}

static inline void ring_get_burst(struct ring *ring, struct ring_end *end, void **items, uint64_t n)
{
    unsigned turn = 0;

    while (end->theirs - end->mine < n) {
        end->theirs = atomic_load_explicit(&ring->tail, memory_order_acquire);
        if (end->theirs - end->mine < n)
            ring_wait(&turn);
    }
    for (uint64_t i = 0; i < n; i++)
        items[i] = ring->item[(end->mine + i) % RING_SIZE];
    end->mine += n;
    atomic_store_explicit(&ring->head, end->mine, memory_order_release);
}

#endif
