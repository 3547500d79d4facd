/* SPDX-License-Identifier: MIT */
/* cache_stat.c - the public calls on a cache's counters: switch them on and off, sum them. */
#include "base/grow.h"
#include "slab/stat.h"

#include "base/context.h"
#include "cache/cache_list.h"

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
    done = stat_switch(cache, on);
    lock_drop(&cache_list.lock, LOCK_CACHES);
    context_leave();
    if (done)
        return 0;
    errno = ENOMEM;
    return -1;
}

int stook_cache_stat(struct stook_cache *cache, struct stook_stat *stat)
{
    const size_t events = offsetof(struct stook_stat, alloc_fastpath);
    struct stook_stat all = {0};

    if (!grow_is_sized(stat->size)) {
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
