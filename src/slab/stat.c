/* SPDX-License-Identifier: MIT */
/*
 * stat.c - maps a cache's counters when they are switched on, and adds and reads them.
 */
#include "slab/stat.h"

#include "base/placed.h"
#include "base/settings.h"
#include "percpu/rows.h"
#include "os/topology.h"

#include <string.h>

#define STAT_FIELD(name, what)                                                                     \
    _Static_assert(offsetof(struct stook_stat, name) ==                                            \
                       offsetof(struct stook_stat, alloc_fastpath) +                               \
                           STAT_##name * sizeof(uint64_t),                                         \
                   "struct stook_stat ends with the counters, in the order of STOOK_STAT_EVENTS");
STOOK_STAT_EVENTS(STAT_FIELD)
#undef STAT_FIELD

static uint64_t *stat_at(uint64_t *rows, int cpu, enum stat_event event)
{
    return (uint64_t *)rows_at(rows, ROWS_STAT, cpu) + event;
}

static int stat_cpu(void)
{
    int cpu = percpu_cpu();

    return cpu < 0 ? STAT_NO_CPU : cpu;
}

static void stat_count_on(struct stook_cache *cache, int cpu, enum stat_event event, uint64_t n)
{
    if (event >= STAT_FAST || stat_counts_fast(cache))
        __atomic_fetch_add(stat_at(cache->stat_kept, cpu, event), n, __ATOMIC_RELAXED);
}

__attribute__((noinline, cold)) void stat_count(struct stook_cache *cache, enum stat_event event,
                                                uint64_t n)
{
    if (n > 0)
        stat_count_on(cache, stat_cpu(), event, n);
}

_Static_assert((int)STAT_free_cpu_sheaf - STAT_free_fastpath == STAT_MAIN, "stat_read()");

__attribute__((noinline, cold)) void stat_count_lock(struct stook_cache *cache, enum stat_event own,
                                                     unsigned node)
{
    int cpu = stat_cpu();
    unsigned step = 0;

    if (cpu >= 0 && topology_node((unsigned)cpu) != node)
        step = topology_distance(topology_node((unsigned)cpu), node) < STAT_NEAR ? 1 : 2;
    stat_count_on(cache, cpu, own + step, 1);
}

uint64_t stat_read(const struct stook_cache *cache, int cpu, enum stat_event event)
{
    uint64_t *rows = __atomic_load_n(&cache->stat_kept, __ATOMIC_ACQUIRE), n;

    if (!rows || cpu < STAT_NO_CPU || cpu >= (int)percpu.rows)
        return 0;
    n = __atomic_load_n(stat_at(rows, cpu, event), __ATOMIC_RELAXED);
    if (event == STAT_alloc_fastpath || event == STAT_free_fastpath)
        n += __atomic_load_n(stat_at(rows, cpu, event + STAT_MAIN), __ATOMIC_RELAXED);
    return n;
}

uint64_t stat_read_sum(const struct stook_cache *cache, enum stat_event event)
{
    uint64_t sum = 0;

    for (int cpu = STAT_NO_CPU; cpu < (int)percpu.rows; cpu++)
        sum += stat_read(cache, cpu, event);
    return sum;
}

FIRST_TEXT void stat_close(struct stook_cache *cache, uint32_t reason, bool close)
{
    uint32_t closed = atomic_load_explicit(&cache->closed, memory_order_relaxed);

    closed = close ? closed | reason : closed & ~reason;
    /* Any order will do for objects: slot 0 and the cache's own serve at the same time. */
    atomic_store_explicit(&cache->closed, closed, memory_order_relaxed);
    atomic_store_explicit(&cache->fast_parts,
                          percpu.rseq && cache->layout.lead == 0 && closed == CACHE_CLOSED_ACCOUNTED
                              ? cache_parts(cache)
                              : 0,
                          memory_order_relaxed);
    __atomic_store_n(&cache->head.slots,
                     closed || cache_checks_frees(cache) ? percpu.areas : cache->own,
                     __ATOMIC_RELAXED);
}

bool stat_switch(struct stook_cache *cache, int mode)
{
    /* The sections of malloc know their slots without the cache. */
    if (mode == STOOK_STATS_ALL && (cache->flags & CACHE_MALLOC))
        mode = STOOK_STATS_SLOW;
    if (mode != STOOK_STATS_OFF && !cache->stat_kept) {
        uint64_t *rows = rows_map(ROWS_STAT);
        if (!rows)
            return false;
        __atomic_store_n(&cache->stat_kept, rows, __ATOMIC_RELEASE);
    }
    __atomic_store_n(&cache->stat_mode, mode, __ATOMIC_RELEASE);
    stat_close(cache, CACHE_CLOSED_COUNTED, mode == STOOK_STATS_ALL);
    return true;
}

FIRST_TEXT void stat_init(struct stook_cache *cache)
{
    int mode = (int)setting_number(SETTING_STATS); /* its words stand in the order of the modes */

    if (mode != STOOK_STATS_OFF)
        (void)stat_switch(cache, mode);
}

void stat_exit(struct stook_cache *cache)
{
    if (cache->stat_kept)
        rows_unmap(cache->stat_kept, ROWS_STAT);
    cache->stat_kept = NULL;
    cache->stat_mode = STOOK_STATS_OFF;
}
