/* SPDX-License-Identifier: MIT */
#include "cache/adapt.h"

#include "base/context.h"
#include "cache/cache_list.h"
#include "base/init.h"
#include "cache/pin.h"
#include "os/topology.h"
#include "sheaf/barn.h"
#include "sheaf/budget.h"
#include "sheaf/capacity.h"

#include <errno.h>

enum {
    ADAPT_STEPS = 64, /* numbers that one look goes on by at most */
    ADAPT_IDLE = 2,   /* looks without an exchange after which a cache idles */
};

static unsigned adapt_hand; /* under the cache list's lock */

/* Whether nothing has happened for long; under the list's lock. */
static bool adapt_idles(struct stook_cache *cache)
{
    uint64_t activity = capacity_activity(cache);

    if (cache->seen != activity) {
        cache->seen = activity;
        cache->idle = 0;
        return false;
    }
    if (++cache->idle < ADAPT_IDLE)
        return false;
    cache->idle = 0;
    return true;
}

static void adapt_unpin(struct pin *pin)
{
    lock_take(&cache_list.lock, LOCK_CACHES);
    pin_set(pin, NULL);
    lock_drop(&cache_list.lock, LOCK_CACHES);
    pin_end(pin);
}

/* The next cache that has grown and idles, or fell by itself; under the list's lock. */
static struct stook_cache *adapt_next(const struct stook_cache *own, bool near)
{
    for (unsigned step = 0; step < ADAPT_STEPS && step < cache_list.end; step++) {
        struct stook_cache *cache;
        adapt_hand = adapt_hand + 1 < cache_list.end ? adapt_hand + 1 : 0;
        cache = cache_table[adapt_hand];
        if (!cache || cache->users == 0 || !cache_has_grown(cache) ||
            (cache == own && cache_level(cache) > 0) ||
            (near && (cache_level(cache) == 0 || !(cache->flags & CACHE_MALLOC))))
            continue;
        return cache_level(cache) == 0 || adapt_idles(cache) ? cache : NULL;
    }
    return NULL;
}

/* Malloc's classes stay.  A pin would have to be given back under the lock, which a fork may have then. */
static void adapt_look_near(const struct stook_cache *own)
{
    struct stook_cache *cache;

    if (!lock_try(&cache_list.lock, LOCK_CACHES))
        return;
    cache = adapt_next(own, true);
    lock_drop(&cache_list.lock, LOCK_CACHES);
    if (cache)
        capacity_lower(cache);
}

void adapt_look(const struct stook_cache *own, bool near)
{
    struct pin pin;

    if (near) {
        adapt_look_near(own);
        return;
    }
    if (!lock_try(&cache_list.lock, LOCK_CACHES))
        return;
    pin_begin(&pin, NULL);
    pin_set(&pin, adapt_next(own, false)); /* it stays even if it is destroyed meanwhile */
    lock_drop(&cache_list.lock, LOCK_CACHES);
    if (pin.one)
        capacity_shrink(pin.one);
    adapt_unpin(&pin);
}

/* ---- the calls ------------------------------------------------------------------------------ */

int stook_cache_set_capacity(struct stook_cache *cache, unsigned capacity)
{
    if (capacity > STOOK_SHEAF_CAPACITY_MAX) {
        errno = E2BIG;
        return -1;
    }
    if (cache_capacity(cache) == 0) {
        errno = ENOTSUP;
        return -1;
    }
    context_enter();
    capacity_set(cache, capacity > 0 ? capacity : cache_default_capacity(cache));
    context_leave();
    return 0;
}

unsigned stook_cache_capacity(const struct stook_cache *cache)
{
    return cache_capacity(cache);
}

size_t stook_cached_bytes(void)
{
    return atomic_load_explicit(&budget.granted, memory_order_relaxed);
}

/* The cache of a number that has sheaves, pinned; or NULL. */
static struct stook_cache *adapt_pin(struct pin *pin, unsigned number, unsigned *end)
{
    struct stook_cache *cache;

    pin_begin(pin, NULL);
    lock_take(&cache_list.lock, LOCK_CACHES);
    *end = cache_list.end;
    cache = number < *end ? cache_table[number] : NULL;
    if (cache && (cache->users == 0 || cache_capacity(cache) == 0))
        cache = NULL;
    pin_set(pin, cache);
    lock_drop(&cache_list.lock, LOCK_CACHES);
    return cache;
}

int stook_cached_bytes_set_max(size_t bytes)
{
    init_once();
    context_enter();
    atomic_store(&budget.max, bytes);
    for (unsigned i = 1, end = i + 1; i < end && atomic_load(&budget.granted) > bytes; i++) {
        struct pin pin;
        struct stook_cache *cache = adapt_pin(&pin, i, &end);
        if (cache) {
            capacity_shrink(cache);
            for (unsigned node = 0; node < topology.nodes; node++)
                barn_drain(cache, node);
        }
        adapt_unpin(&pin);
    }
    context_leave();
    return 0;
}
