/* SPDX-License-Identifier: MIT */
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

int stook_cache_stat_clear(struct stook_cache *cache)
{
    stat_clear(cache);
    return 0;
}

int stook_cache_stat(struct stook_cache *cache, struct stook_stat *stat)
{
    const size_t events = offsetof(struct stook_stat, alloc_fastpath);
    size_t size = stat->size, known;
    char *fields = (char *)stat + events;

    if (size < events + sizeof(uint64_t) || size % sizeof(uint64_t)) {
        errno = EINVAL;
        return -1;
    }
    stat->cached_bytes = atomic_load_explicit(&cache->policy.cached, memory_order_relaxed);
    stat->cached_bytes_max = cache->policy.cached_max == SIZE_MAX ? 0 : cache->policy.cached_max;
    size -= events;
    known = size < STAT_EVENTS * sizeof(uint64_t) ? size : STAT_EVENTS * sizeof(uint64_t);
    for (size_t at = 0; at < known; at += sizeof(uint64_t)) {
        uint64_t sum = stat_read_sum(cache, (enum stat_event)(at / sizeof(uint64_t)));
        memcpy(fields + at, &sum, sizeof(sum));
    }
    memset(fields + known, 0, size - known);
    return 0;
}
