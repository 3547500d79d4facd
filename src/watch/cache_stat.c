/* SPDX-License-Identifier: MIT */
/*
 * cache_stat.c - the public calls of stook/stat.h for a cache's counters, and for its objects and bytes.
 */
#include "base/context.h"
#include "base/grow.h"
#include "cache/cache_list.h"
#include "cache/pin.h"
#include "os/topology.h"
#include "page/arena.h"
#include "slab/column.h"
#include "slab/node.h"
#include "slab/stat.h"
#include "watch/stats.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

int stook_cache_stat_enable(struct stook_cache *cache, int on)
{
    bool done;

    if (on != STOOK_STATS_OFF && on != STOOK_STATS_ALL && on != STOOK_STATS_SLOW) {
        errno = EINVAL;
        return -1;
    }
    context_enter();
    lock_take(&cache_list.lock, LOCK_CACHES);
    done = cache->alive && stat_switch(cache, on);
    lock_drop(&cache_list.lock, LOCK_CACHES);
    context_leave();
    if (!done && pin_alive(cache))
        errno = ENOMEM;
    return done ? 0 : -1;
}

int stook_cache_stat(struct stook_cache *cache, struct stook_stat *stat)
{
    const size_t events = offsetof(struct stook_stat, alloc_fastpath);
    struct stook_stat all = {0};

    if (!pin_alive(cache) || !grow_is_sized(stat->size)) {
        errno = EINVAL;
        return -1;
    }
    all.cached_bytes = atomic_load_explicit(&cache->policy.cached, memory_order_relaxed);
    all.cached_bytes_max = cache->policy.cached_max;
    for (unsigned event = 0; event < STAT_EVENTS; event++) {
        uint64_t sum = stat_read_sum(cache, (enum stat_event)event);
        memcpy((char *)&all + events + event * sizeof(sum), &sum, sizeof(sum));
    }
    grow_write(stat, &all, sizeof(all));
    return 0;
}

/* Of the descriptors of a node's slabs, with the columns behind them. */
static uint64_t cache_stat_meta(const struct stook_cache *cache, const struct node *node)
{
    uint64_t least = __atomic_load_n(&node->made_min, __ATOMIC_RELAXED) -
                     __atomic_load_n(&node->gone_min, __ATOMIC_RELAXED);
    uint64_t all = __atomic_load_n(&node->made, __ATOMIC_RELAXED) -
                   __atomic_load_n(&node->gone, __ATOMIC_RELAXED);
    uint32_t tagged = atomic_load_explicit(&cache->tagged, memory_order_relaxed) ? SLAB_TAGGED : 0;
    size_t meta_least = column_meta(cache, SLAB_MIN | tagged), meta = column_meta(cache, tagged);

    return least * ((meta_least + ARENA_GRANULE - 1) & -(size_t)ARENA_GRANULE) +
           (all - least) * ((meta + ARENA_GRANULE - 1) & -(size_t)ARENA_GRANULE);
}

int stook_cache_usage(struct stook_cache *cache, struct stook_cache_usage *usage)
{
    struct stook_cache_usage all = {0};
    struct stats_cache row;
    bool may = pin_alive(cache) && grow_is_sized(usage->size);

    if (!may || !stats_readable()) {
        errno = may ? EDEADLK : EINVAL;
        return -1;
    }
    (void)stats_read_cache(cache->index, &row);
    all.in_use = row.active;
    all.cached = row.in_sheaves;
    all.free = row.in_slabs;
    all.slabs = row.slabs;
    all.bytes = row.resident;
    all.bytes_peak = row.peak;
    for (unsigned i = 0; i < topology.nodes; i++)
        all.meta += cache_stat_meta(cache, &cache->nodes[i].node);
    all.capacity = row.capacity;
    grow_write(usage, &all, sizeof(all));
    return 0;
}
