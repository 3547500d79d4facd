/* SPDX-License-Identifier: MIT */
/*
 * stat.h - a cache's counters, by CPU.  The names and meanings of the events: <stook/stat.h>.
 *
 * Off, an event costs the test of a word that lies in the cache.  On, an atomic addition in a row
 * of this CPU, so that sums are exact when others add, too: threads that were moved meanwhile, handlers.
 * Threads without a CPU have a row of their own.
 *
 * The calls' fast path counts nothing.  While it is to be counted, the cache's head points to slot
 * 0, which never gets a sheaf.  So all calls come to the slow path (sheaf/slot_alloc.c, slot_free.c), which
 * counts and works on the cache's own slots.
 */
#ifndef STOOK_SLAB_STAT_H
#define STOOK_SLAB_STAT_H

#include "slab/cache.h"

#include <stook/stat.h>

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum stat_event {
#define STAT_EVENT(name, what) STAT_##name,
    STOOK_STAT_EVENTS(STAT_EVENT)
#undef STAT_EVENT
        STAT_EVENTS,
    STAT_FAST = STAT_alloc_slowpath, /* events below are the fast path's */
    /* Objects straight from and to the main sheaf are counted once: stat_read() adds them to
     * alloc_fastpath and free_fastpath, which lie this much below. */
    STAT_MAIN = STAT_alloc_cpu_sheaf - STAT_alloc_fastpath,
};

enum {
    STAT_NEAR = 20,            /* distances below are near (TOPOLOGY_LOCAL is a node's own) */
    STAT_NO_CPU = ROWS_NO_CPU, /* the row of threads without a CPU */
};

_Static_assert(STAT_EVENTS * sizeof(uint64_t) <= 1 << ROWS_STAT,
               "too many counters for a row: raise ROWS_STAT in percpu/rows.h");

/* Out of line: counting is on. */
void stat_count(struct stook_cache *cache, enum stat_event event, uint64_t n);
void stat_count_lock(struct stook_cache *cache, enum stat_event own, unsigned node);

static inline bool stat_is_on(const struct stook_cache *cache)
{
    /* Pairs with the release in stat_switch(). */
    return __builtin_expect(__atomic_load_n(&cache->stat_mode, __ATOMIC_ACQUIRE) != STOOK_STATS_OFF,
                            0);
}

/* n of an event of this cache, on this CPU.  Any context. */
static inline void stat_add(struct stook_cache *cache, enum stat_event event, uint64_t n)
{
    if (stat_is_on(cache))
        stat_count(cache, event, n);
}

/* A lock of `node` was taken: `own` is STAT_barn_lock_own or STAT_list_lock_own, the next two
 * events are near and far. */
static inline void stat_add_lock(struct stook_cache *cache, enum stat_event own, unsigned node)
{
    if (stat_is_on(cache))
        stat_count_lock(cache, own, node);
}

/* Whether the four events of the fast path are counted. */
static inline bool stat_counts_fast(const struct stook_cache *cache)
{
    return __builtin_expect(
        atomic_load_explicit(&cache->closed, memory_order_relaxed) & CACHE_CLOSED_COUNTED, 0);
}

/* Closes or opens the fast path for one reason of CACHE_CLOSED_*.  Under the cache list's lock. */
void stat_close(struct stook_cache *cache, uint32_t reason, bool close);

/* Whether it counts, or has counted before it was switched off. */
static inline bool stat_is_kept(const struct stook_cache *cache)
{
    return __atomic_load_n(&cache->stat_kept, __ATOMIC_RELAXED) != NULL;
}

/* What one CPU (or STAT_NO_CPU) has counted since it was first switched on; 0 for unknown CPUs. */
uint64_t stat_read(const struct stook_cache *cache, int cpu, enum stat_event event);
uint64_t stat_read_sum(const struct stook_cache *cache, enum stat_event event);

/* STOOK_STATS_*; false with ENOMEM.  Under the cache list's lock. */
bool stat_switch(struct stook_cache *cache, int mode);
/* A cache that is being made (what the environment asks for), and one that is no more. */
void stat_init(struct stook_cache *cache);
void stat_exit(struct stook_cache *cache);

#endif
