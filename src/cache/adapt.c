/* SPDX-License-Identifier: MIT */
/*
 * adapt.c - when a cache's sheaves and barn limits grow and shrink, within the budget of all caches.
 */
#include "cache/adapt.h"

#include "base/context.h"
#include "cache/cache_list.h"
#include "base/init.h"
#include "base/placed.h"
#include "cache/pin.h"
#include "os/topology.h"
#include "sheaf/barn.h"
#include "sheaf/budget.h"
#include "sheaf/slot_drain.h"
#include "slab/stat.h"

#include <errno.h>

enum {
    ADAPT_LEVELS = 10,
    ADAPT_SHEAF_BYTES = 256 << 10, /* objects of a grown sheaf are no more bytes than this */
    ADAPT_BARN_SHEAVES = 10,       /* full sheaves of a barn at most … */
    ADAPT_BARN_BYTES = 128 << 10,  /* … and no more bytes than this, but two sheaves … */
    ADAPT_BARN_MALLOC = 64 << 10,  /* … of malloc's classes: there are many of them */
    ADAPT_BARN_MORE = 8,       /* a barn's limit grows to this many times what it begins with … */
    ADAPT_BARN_MOST = 1 << 20, /* … and to as many bytes at level 0, twice as many a level */
    ADAPT_SHORT = 128,         /* sheaves of fewer objects than this … */
    ADAPT_SHORT_BYTES = 128 << 10, /* … and fewer bytes are short */
    ADAPT_DRAINS = 8,              /* times that slots are drained until none was closed */
    ADAPT_STEPS = 64,              /* places of the cache table that one check passes at most */
    ADAPT_IDLE = 2,                /* checks without an exchange after which a cache is idle */
};

_Atomic uint32_t adapt_grown;
static unsigned adapt_clock_hand LOCK_GUARDS(cache_list.lock);

/* ---- what a level means ---------------------------------------------------------------------- */

FIRST_TEXT unsigned adapt_default_capacity(const struct stook_cache *cache)
{
    size_t stride = cache->layout.stride;

    return layout_capacity(cache->flags & CACHE_MALLOC ? stride * 5 / 2 : stride);
}

static uint32_t adapt_barn_limit(const struct stook_cache *cache, size_t sheaf)
{
    size_t bytes = cache->flags & CACHE_MALLOC ? ADAPT_BARN_MALLOC : ADAPT_BARN_BYTES;
    size_t limit = sheaf ? bytes / sheaf : 0;

    return limit > ADAPT_BARN_SHEAVES ? ADAPT_BARN_SHEAVES : limit < 2 ? 2 : (uint32_t)limit;
}

/* Bytes of full sheaves a barn may come to hold, the budgets permitting. */
static size_t adapt_barn_bytes(uint32_t level)
{
    return (size_t)ADAPT_BARN_MOST << level;
}

static uint32_t adapt_barn_most(size_t sheaf, uint32_t limit, uint32_t level)
{
    size_t most = sheaf ? adapt_barn_bytes(level) / sheaf : 0;

    if (level == 0 && most > (size_t)ADAPT_BARN_MORE * limit)
        most = (size_t)ADAPT_BARN_MORE * limit;
    return most > limit ? (uint32_t)most : limit;
}

static uint32_t adapt_at(const struct stook_cache *cache, uint32_t base, uint32_t level)
{
    size_t most = ADAPT_SHEAF_BYTES / cache->layout.stride;
    size_t capacity = (size_t)base << level;

    if (most > STOOK_SHEAF_CAPACITY_MAX)
        most = STOOK_SHEAF_CAPACITY_MAX;
    if (capacity > most)
        capacity = most;
    return capacity > base ? (uint32_t)capacity : base;
}

/* What all CPUs' main and spare sheaves can hold more than at level 0. */
static size_t adapt_more_bytes(const struct stook_cache *cache, uint32_t base, uint32_t level)
{
    return (size_t)(adapt_at(cache, base, level) - base) * 2 * topology.allowed_cpus *
           cache->layout.stride;
}

/* Under the lock of node 0's barn, or before any other thread knows the cache. */
static FIRST_TEXT void adapt_store(struct stook_cache *cache, uint32_t base, uint32_t level)
{
    struct policy *policy = &cache->policy;
    uint32_t capacity = adapt_at(cache, base, level);
    size_t sheaf = (size_t)capacity * cache->layout.stride;
    uint32_t limit = adapt_barn_limit(cache, sheaf);
    bool before = cache_has_grown(cache);

    policy->base = base;
    __atomic_store_n(&policy->level, level, __ATOMIC_RELAXED);
    __atomic_store_n(&policy->barn_limit, limit, __ATOMIC_RELAXED);
    __atomic_store_n(&policy->barn_most, adapt_barn_most(sheaf, limit, level), __ATOMIC_RELAXED);
    __atomic_store_n(&policy->capacity, capacity, __ATOMIC_RELAXED);
    __atomic_store_n(&policy->fallen, level == 0 && before, __ATOMIC_RELAXED);
    if (!before && level > 0)
        atomic_fetch_add_explicit(&adapt_grown, 1, memory_order_relaxed);
}

FIRST_TEXT void adapt_init(struct stook_cache *cache, unsigned base, size_t cached_max)
{
    cache->policy.cached_max = cached_max                            ? cached_max
                               : cache->flags & STOOK_CACHE_ADAPTIVE ? (size_t)BUDGET_ADAPTIVE
                                                                     : SIZE_MAX;
    adapt_store(cache, base, 0);
}

/* Barns do as the new limits say. */
static void adapt_apply_limits(struct stook_cache *cache)
{
    for (unsigned node = 0; node < topology.nodes; node++)
        barn_fit(cache, node);
}

/* One level up, if the budgets let it. */
static void adapt_grow(struct stook_cache *cache)
{
    struct barn *barn = &cache->nodes[0].barn;
    uint32_t level;
    size_t more, had;
    bool grown = false;

    if (!lock_enter(&barn->lock, LOCK_BARN, false))
        return;
    level = cache->policy.level + 1;
    had = cache->policy.grown;
    more = adapt_more_bytes(cache, cache->policy.base, level);
    if (more < had) /* fewer CPUs by now */
        more = had;
    /* A barn that may hold the whole budget already gains nothing by a higher limit. */
    if (level <= ADAPT_LEVELS && adapt_barn_bytes(cache_level(cache)) < cache->policy.cached_max &&
        budget_take(cache, more - had)) {
        cache->policy.grown = more;
        cache->policy.resized = 1;
        adapt_store(cache, cache->policy.base, level);
        grown = true;
    }
    lock_drop(&barn->lock, LOCK_BARN);
    if (grown) {
        stat_add(cache, STAT_capacity_grow, 1);
        adapt_apply_limits(cache);
    }
}

/* To level 0 of `base`, or of the present one (0).  True: CPUs may have larger sheaves.  A fork that has
 * the lock is waited for if `through`; else another call does it. */
static bool adapt_fall(struct stook_cache *cache, uint32_t base, bool through)
{
    struct barn *barn = &cache->nodes[0].barn;
    uint32_t before;
    bool fell;

    if (through)
        lock_take(&barn->lock, LOCK_BARN);
    else if (!lock_enter(&barn->lock, LOCK_BARN, false))
        return false;
    before = cache->policy.capacity;
    fell = cache->policy.level > 0;
    if (base == 0)
        base = cache->policy.base;
    if (base != before)
        cache->policy.resized = 1;
    adapt_store(cache, base, 0);
    lock_drop(&barn->lock, LOCK_BARN);
    stat_add(cache, STAT_capacity_shrink, fell);
    adapt_apply_limits(cache);
    return base < before;
}

/* All sheaves leave the CPUs, larger ones than new ones among them; what those were granted goes back after them. */
static void adapt_collect(struct stook_cache *cache)
{
    struct barn *barn = &cache->nodes[0].barn;
    size_t grown = 0;

    lock_take(&barn->lock, LOCK_BARN);
    if (cache->policy.fallen) { /* else another thread is at it, or it has grown again */
        grown = cache->policy.grown;
        cache->policy.grown = 0;
        __atomic_store_n(&cache->policy.fallen, 0, __ATOMIC_RELAXED);
        atomic_fetch_sub_explicit(&adapt_grown, 1, memory_order_relaxed);
    }
    lock_drop(&barn->lock, LOCK_BARN);
    /* Skipped are slots that their owners have closed, for a moment: once more then. */
    for (int i = 0; i < ADAPT_DRAINS && !slot_drain(&cache, 1, false); i++)
        ;
    budget_give(cache, grown);
}

/* Whether sheaves that change places often are to be longer: then a batch of some dozens fits into one. */
static bool adapt_is_short(const struct stook_cache *cache)
{
    uint32_t capacity = cache_capacity(cache);

    return capacity < ADAPT_SHORT && capacity * cache->layout.stride < ADAPT_SHORT_BYTES;
}

/* Back to level 0, except the sheaves that CPUs have: those are collected when it is due.  Makes no system
 * call. */
static void adapt_lower(struct stook_cache *cache)
{
    if (cache_level(cache) > 0 && adapt_fall(cache, 0, false))
        context_self()->due |= CONTEXT_DUE_CAPACITY;
}

void adapt_shrink(struct stook_cache *cache)
{
    if (cache_level(cache) > 0)
        (void)adapt_fall(cache, 0, true);
    if (cache_has_grown(cache))
        adapt_collect(cache);
}

FIRST_TEXT void adapt_act(struct stook_cache *cache)
{
    int saved = errno;
    uint32_t verdict;

    context_enter();
    verdict = __atomic_exchange_n(&cache->policy.verdict, BARN_CONTENT, __ATOMIC_RELAXED);
    if (verdict == BARN_WANTS_MORE || (verdict == BARN_WANTS_LONGER && adapt_is_short(cache)))
        adapt_grow(cache);
    else if (verdict == BARN_WANTS_LESS)
        adapt_lower(cache);
    context_leave();
    errno = saved;
}

/* ---- caches that idle ------------------------------------------------------------------------ */

/* Whether its barns have seen no exchange for long; under the list's lock. */
LOCK_NEEDS(cache_list.lock) static bool adapt_idles(struct stook_cache *cache)
{
    uint64_t activity = 0;

    for (unsigned node = 0; node < topology.nodes; node++) {
        struct barn *barn = &cache->nodes[node].barn;
        lock_take(&barn->lock, LOCK_BARN);
        activity += barn->get + barn->get_fail + barn->put + barn->put_fail;
        lock_drop(&barn->lock, LOCK_BARN);
    }
    if (cache->policy.seen != activity) {
        cache->policy.seen = activity;
        cache->policy.idle = 0;
        return false;
    }
    if (++cache->policy.idle < ADAPT_IDLE)
        return false;
    cache->policy.idle = 0;
    return true;
}

/* The next cache that has grown and idles, or fell by itself; under the list's lock. */
LOCK_NEEDS(cache_list.lock)
static struct stook_cache *adapt_next(const struct stook_cache *own, bool near)
{
    for (unsigned step = 0; step < ADAPT_STEPS && step < percpu.slots; step++) {
        struct stook_cache *cache;
        adapt_clock_hand = adapt_clock_hand + 1 < percpu.slots ? adapt_clock_hand + 1 : 0;
        cache = cache_table[adapt_clock_hand];
        if (!cache || !cache->alive || !cache_has_grown(cache) ||
            (cache == own && cache_level(cache) > 0) ||
            (near && (cache_level(cache) == 0 || !(cache->flags & CACHE_MALLOC))))
            continue;
        return cache_level(cache) == 0 || adapt_idles(cache) ? cache : NULL;
    }
    return NULL;
}

FIRST_TEXT void adapt_scan(const struct stook_cache *own, bool near)
{
    struct stook_cache *cache;
    struct pin pin;

    if (!lock_enter(&cache_list.lock, LOCK_CACHES, true))
        return;
    cache = adapt_next(own, near);
    if (near) { /* malloc's classes stay; a pin would have to be given back under the lock, which a fork may have then */
        lock_drop(&cache_list.lock, LOCK_CACHES);
        if (cache)
            adapt_lower(cache);
        return;
    }
    pin_begin(&pin);
    pin_set(&pin, cache); /* it stays even if it is destroyed meanwhile */
    lock_drop(&cache_list.lock, LOCK_CACHES);
    if (cache)
        adapt_shrink(cache);
    lock_take(&cache_list.lock, LOCK_CACHES);
    pin_set(&pin, NULL);
    lock_drop(&cache_list.lock, LOCK_CACHES);
    pin_end(&pin);
}

/* ---- the calls ------------------------------------------------------------------------------ */

int stook_cache_set_capacity(struct stook_cache *cache, unsigned capacity)
{
    bool fits = capacity <= STOOK_SHEAF_CAPACITY_MAX;

    if (!pin_alive(cache))
        return -1;
    if (!fits || cache_capacity(cache) == 0) {
        errno = fits ? ENOTSUP : E2BIG;
        return -1;
    }
    context_enter();
    if (adapt_fall(cache, capacity > 0 ? capacity : adapt_default_capacity(cache), true) ||
        cache_has_grown(cache))
        adapt_collect(cache);
    context_leave();
    return 0;
}

/* Its part of what is granted goes back.  False: the bound is kept. */
static bool adapt_give_back(struct stook_cache *cache, void *max)
{
    adapt_shrink(cache);
    for (unsigned node = 0; node < topology.nodes; node++)
        barn_drain(cache, node);
    return atomic_load(&budget.granted) > *(size_t *)max;
}

int stook_cached_bytes_set_max(size_t bytes)
{
    init_once();
    context_enter();
    atomic_store(&budget.max, bytes);
    if (atomic_load(&budget.granted) > bytes)
        pin_each(adapt_give_back, &bytes);
    context_leave();
    return 0;
}
