/* SPDX-License-Identifier: MIT */
#include "sheaf/capacity.h"

#include "base/context.h"
#include "os/topology.h"
#include "sheaf/barn.h"
#include "sheaf/budget.h"
#include "sheaf/slot.h"
#include "slab/stat.h"

enum {
    CAPACITY_BARN_SHEAVES = 10,      /* full sheaves of a barn at most … */
    CAPACITY_BARN_BYTES = 128 << 10, /* … and no more bytes than this, but two sheaves … */
    CAPACITY_BARN_MALLOC = 64 << 10, /* … of malloc's classes: there are many of them */
    CAPACITY_DRAINS = 8, /* times that slots are drained until no larger sheaf is seen */
};

_Atomic uint32_t capacity_grown;
static __thread unsigned capacity_ticks __attribute__((tls_model("initial-exec")));

static struct barn *capacity_barn(struct stook_cache *cache)
{
    return &cache->nodes[0].barn;
}

static uint32_t capacity_barn_limit(const struct stook_cache *cache, uint32_t capacity)
{
    size_t sheaf = (size_t)capacity * cache->layout.stride;
    size_t bytes = cache->flags & CACHE_MALLOC ? CAPACITY_BARN_MALLOC : CAPACITY_BARN_BYTES;
    size_t limit = sheaf ? bytes / sheaf : 0;

    return limit > CAPACITY_BARN_SHEAVES ? CAPACITY_BARN_SHEAVES : limit < 2 ? 2 : (uint32_t)limit;
}

size_t capacity_barn_bytes(const struct stook_cache *cache)
{
    return (size_t)CAPACITY_BARN_MOST << cache_level(cache);
}

static uint32_t capacity_at(const struct stook_cache *cache, uint32_t base, uint32_t level)
{
    size_t most = CAPACITY_SHEAF_BYTES / cache->layout.stride;
    size_t capacity = (size_t)base << level;

    if (most > STOOK_SHEAF_CAPACITY_MAX)
        most = STOOK_SHEAF_CAPACITY_MAX;
    if (capacity > most)
        capacity = most;
    return capacity > base ? (uint32_t)capacity : base;
}

/* What all CPUs' main and spare sheaves can hold more than at level 0. */
static size_t capacity_more_bytes(const struct stook_cache *cache, uint32_t base, uint32_t level)
{
    return (size_t)(capacity_at(cache, base, level) - base) * 2 * topology.allowed_cpus *
           cache->layout.stride;
}

/* Under the lock of node 0's barn, or before anybody knows the cache. */
static void capacity_store(struct stook_cache *cache, uint32_t base, uint32_t level)
{
    uint32_t capacity = capacity_at(cache, base, level);
    bool before = cache_has_grown(cache);

    cache->base = base;
    __atomic_store_n(&cache->level, level, __ATOMIC_RELAXED);
    __atomic_store_n(&cache->barn_limit, capacity_barn_limit(cache, capacity), __ATOMIC_RELAXED);
    __atomic_store_n(&cache->capacity, capacity, __ATOMIC_RELAXED);
    __atomic_store_n(&cache->fallen, level == 0 && before, __ATOMIC_RELAXED);
    if (!before && level > 0)
        atomic_fetch_add_explicit(&capacity_grown, 1, memory_order_relaxed);
}

void capacity_init(struct stook_cache *cache, unsigned base, size_t cached_max)
{
    cache->cached_max = cached_max                            ? cached_max
                        : cache->flags & STOOK_CACHE_ADAPTIVE ? (size_t)BUDGET_ADAPTIVE
                                                              : SIZE_MAX;
    capacity_store(cache, base, 0);
}

/* Barns do as the new limits say. */
static void capacity_settle(struct stook_cache *cache, bool nospin)
{
    for (unsigned node = 0; node < topology.nodes; node++)
        barn_fit(cache, node, nospin);
}

bool capacity_grow(struct stook_cache *cache, bool nospin)
{
    struct barn *barn = capacity_barn(cache);
    uint32_t level;
    size_t more, had;
    bool grown = false;

    if (!lock_enter(&barn->lock, LOCK_BARN, nospin))
        return false;
    level = cache->level + 1;
    had = cache->grown;
    more = capacity_more_bytes(cache, cache->base, level);
    if (more < had) /* fewer CPUs by now */
        more = had;
    /* A barn that may hold the whole budget already gains nothing by a higher limit. */
    if (level <= CAPACITY_LEVELS && capacity_barn_bytes(cache) < cache->cached_max &&
        budget_take(cache, more - had)) {
        cache->grown = more;
        cache->resized = 1;
        capacity_store(cache, cache->base, level);
        grown = true;
    }
    lock_drop(&barn->lock, LOCK_BARN);
    if (grown) {
        stat_add(cache, STAT_capacity_grow, 1);
        capacity_settle(cache, nospin);
    }
    return grown;
}

/* To level 0 of `base`, or of the present one (0); under the lock, which it drops.  True: CPUs may have
 * larger sheaves. */
static bool capacity_fall(struct stook_cache *cache, uint32_t base)
{
    struct barn *barn = capacity_barn(cache);
    uint32_t before;
    bool fell;

    before = cache->capacity;
    fell = cache->level > 0;
    if (base == 0)
        base = cache->base;
    if (base != before)
        cache->resized = 1;
    capacity_store(cache, base, 0);
    lock_drop(&barn->lock, LOCK_BARN);
    stat_add(cache, STAT_capacity_shrink, fell);
    capacity_settle(cache, false);
    return base < before;
}

/* Larger sheaves than new ones leave the CPUs; what grown ones were granted goes back after them. */
static void capacity_collect(struct stook_cache *cache)
{
    struct barn *barn = capacity_barn(cache);
    uint32_t capacity;
    size_t grown = 0;

    lock_take(&barn->lock, LOCK_BARN);
    capacity = cache->capacity;
    if (cache->fallen) { /* else another thread is at it, or it has grown again */
        grown = cache->grown;
        cache->grown = 0;
        __atomic_store_n(&cache->fallen, 0, __ATOMIC_RELAXED);
        atomic_fetch_sub_explicit(&capacity_grown, 1, memory_order_relaxed);
    }
    lock_drop(&barn->lock, LOCK_BARN);
    /* Skipped are slots that their owners have closed, for a moment: once more then. */
    for (int i = 0; i < CAPACITY_DRAINS && slot_exceeds(cache, capacity); i++)
        slot_drain(&cache, 1, false);
    budget_give(cache, grown);
}

/* Without the lock, which a fork may have: another call lowers it. */
void capacity_lower(struct stook_cache *cache)
{
    if (cache_level(cache) > 0 && lock_enter(&capacity_barn(cache)->lock, LOCK_BARN, false) &&
        capacity_fall(cache, 0))
        context_self()->due |= CONTEXT_DUE_CAPACITY;
}

void capacity_shrink(struct stook_cache *cache)
{
    if (cache_level(cache) > 0) {
        lock_take(&capacity_barn(cache)->lock, LOCK_BARN);
        (void)capacity_fall(cache, 0);
    }
    if (cache_has_grown(cache))
        capacity_collect(cache);
}

void capacity_set(struct stook_cache *cache, unsigned capacity)
{
    lock_take(&capacity_barn(cache)->lock, LOCK_BARN);
    if (capacity_fall(cache, capacity) || cache_has_grown(cache))
        capacity_collect(cache);
}

uint64_t capacity_activity(struct stook_cache *cache)
{
    uint64_t sum = 0;

    for (unsigned node = 0; node < topology.nodes; node++) {
        struct barn *barn = &cache->nodes[node].barn;
        lock_take(&barn->lock, LOCK_BARN);
        sum += barn->get + barn->get_fail + barn->put + barn->put_fail;
        lock_drop(&barn->lock, LOCK_BARN);
    }
    return sum;
}

void capacity_tick(void)
{
    if (++capacity_ticks % CAPACITY_TICKS == 0)
        context_self()->due |= CONTEXT_DUE_CAPACITY;
}
