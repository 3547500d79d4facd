/* SPDX-License-Identifier: MIT */
/*
 * The loops over n objects that several cases time. `bulk` is a constant wherever these are used, so
 * each case compiles to loops of one kind; calls of an adapter without bulk calls are compiled out.
 */
#ifndef STOOK_BENCH_LOOPS_H
#define STOOK_BENCH_LOOPS_H

#include "adapter.h"
#include "timing.h"

#define LOOPS_INLINE static inline __attribute__((always_inline))

#if !ADAPTER_HANDOFF_ONLY

LOOPS_INLINE void loops_alloc(adapter_t adapter, void **objects, size_t n, int bulk)
{
#if ADAPTER_BULK
    if (bulk) {
        if (adapter_alloc_bulk(adapter, objects, n) != n)
            case_die("an allocation failed");
        return;
    }
#endif
    (void)bulk;
    for (size_t i = 0; i < n; i++) {
        void *object = adapter_alloc(adapter);
        if (!object)
            case_die("an allocation failed");
        objects[i] = object;
    }
}

LOOPS_INLINE void loops_free(adapter_t adapter, void **objects, size_t n, int bulk)
{
#if ADAPTER_BULK
    if (bulk) {
        adapter_free_bulk(adapter, objects, n);
        return;
    }
#endif
    (void)bulk;
    for (size_t i = 0; i < n; i++)
        adapter_free(adapter, objects[i]);
}

/* One object allocated and freed at once, `count` times; the nanoseconds of it all. */
LOOPS_INLINE uint64_t loops_pair(adapter_t adapter, uint64_t count)
{
    uint64_t start = timing_now();
    for (uint64_t i = 0; i < count; i++) {
        void *object = adapter_alloc(adapter);
        if (!object)
            case_die("an allocation failed");
        case_keep(object);
        adapter_free(adapter, object);
    }
    return timing_now() - start;
}

/* n objects allocated and freed, `count` times; the nanoseconds of it all. */
LOOPS_INLINE uint64_t loops_round(adapter_t adapter, void **objects, size_t n, uint64_t count,
                                  int bulk)
{
    uint64_t start = timing_now();
    for (uint64_t i = 0; i < count; i++) {
        loops_alloc(adapter, objects, n, bulk);
        case_keep(objects);
        loops_free(adapter, objects, n, bulk);
    }
    return timing_now() - start;
}

/* Of 1000 batches' ticks, the share that the allocations took; the counter's own cost taken off. */
LOOPS_INLINE double loops_alloc_share(adapter_t adapter, void **objects, size_t n, int bulk)
{
    enum { BATCHES = 1000 };
    uint64_t alloc_ticks = 0, free_ticks = 0, own_ticks = 0;
    for (int i = 0; i < BATCHES; i++) {
        uint64_t t0 = timing_ticks();
        loops_alloc(adapter, objects, n, bulk);
        uint64_t t1 = timing_ticks();
        loops_free(adapter, objects, n, bulk);
        uint64_t t2 = timing_ticks();
        uint64_t t3 = timing_ticks();
        alloc_ticks += t1 - t0;
        free_ticks += t2 - t1;
        own_ticks += t3 - t2;
    }
    double alloc_net = (double)alloc_ticks - (double)own_ticks;
    double free_net = (double)free_ticks - (double)own_ticks;
    return alloc_net > 0 && free_net > 0 ? alloc_net / (alloc_net + free_net) : 0.5;
}

/* The median share of seven such passes, and what it makes of the pair's time. */
LOOPS_INLINE void loops_split(adapter_t adapter, void **objects, size_t n, int bulk, double pair_ns,
                              struct case_result *result)
{
    double shares[7];
    for (unsigned i = 0; i < 7; i++)
        shares[i] = loops_alloc_share(adapter, objects, n, bulk);
    double share = timing_sort_median(shares, 7);
    CASE_SET(result, pair_ns, pair_ns);
    CASE_SET(result, alloc_ns, pair_ns * share);
    CASE_SET(result, free_ns, pair_ns * (1 - share));
}

#endif
#endif
