/* SPDX-License-Identifier: MIT */
/*
 * What the hand-over cases share: a producer on one CPU, a consumer on another, a ring between, and
 * rounds. The halves are inlined with what they call, so that no call goes through a pointer.
 */
#ifndef STOOK_BENCH_HANDOFF_H
#define STOOK_BENCH_HANDOFF_H

#include <pthread.h>
#include <stdio.h>

#include "adapter.h"
#include "cpus.h"
#include "ring.h"
#include "timing.h"

#define HANDOFF_INLINE static inline __attribute__((always_inline))

struct handoff {
    adapter_t adapter;
    void *pool;
    size_t n; /* objects a burst */
    int bulk; /* of bursts: by bulk calls */
    struct ring ring;
    struct ring_end producer;
    _Atomic uint64_t asked; /* objects of the round to come; 0 between rounds */
    _Atomic uint64_t done;  /* objects freed in that round */
    _Atomic int stop;
};

/* Takes and frees that many objects. */
typedef void handoff_consume(struct handoff *handoff, struct ring_end *end, uint64_t objects);
/* Makes and hands over that many. */
typedef void handoff_produce(struct handoff *handoff, struct ring_end *end, uint64_t objects);

/* The body of the consumer's thread. */
HANDOFF_INLINE void handoff_serve(struct handoff *handoff, handoff_consume *consume)
{
    struct ring_end end = {0, 0};

    cpus_pin(1);
    adapter_join();
    for (;;) {
        uint64_t asked;
        unsigned turn = 0;
        while (!(asked = atomic_load_explicit(&handoff->asked, memory_order_acquire)))
            if (atomic_load_explicit(&handoff->stop, memory_order_relaxed))
                return;
            else
                ring_wait(&turn);
        consume(handoff, &end, asked);
        atomic_store_explicit(&handoff->asked, 0, memory_order_relaxed);
        atomic_store_explicit(&handoff->done, asked, memory_order_release);
    }
}

/* The nanoseconds from the first allocation to the last free. */
HANDOFF_INLINE uint64_t handoff_time(struct handoff *handoff, uint64_t objects,
                                     handoff_produce *produce)
{
    struct ring_end end = handoff->producer;
    unsigned turn = 0;

    uint64_t start = timing_now();
    atomic_store_explicit(&handoff->done, 0, memory_order_relaxed);
    atomic_store_explicit(&handoff->asked, objects, memory_order_release);
    produce(handoff, &end, objects);
    while (atomic_load_explicit(&handoff->done, memory_order_acquire) != objects)
        ring_wait(&turn);
    handoff->producer = end;
    return timing_now() - start;
}

/* False, with a message on stderr: there is no second CPU. */
static inline int handoff_can(void)
{
    if (cpus_count() >= 2)
        return 1;
    fprintf(stderr, "needs two CPUs\n");
    return 0;
}

/* pair_ns of rounds of `count` times `unit` objects. */
static inline void handoff_measure(struct handoff *handoff, void *(*consumer)(void *),
                                   timing_round *round, double unit,
                                   const struct case_params *params, struct case_result *result)
{
    pthread_t thread;

    if (pthread_create(&thread, NULL, consumer, handoff))
        case_die("pthread_create failed");
    double ns = timing_median(round, handoff, params->ms, params->rounds);
    atomic_store(&handoff->stop, 1);
    pthread_join(thread, NULL);
    CASE_SET(result, pair_ns, ns / unit);
}

/* One object or the end: a figure with failed allocations in it is worth nothing. */
HANDOFF_INLINE void *handoff_object(void *object)
{
    if (__builtin_expect(!object, 0))
        case_die("an allocation failed");
    return object;
}

#endif
