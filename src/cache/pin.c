/* SPDX-License-Identifier: MIT */
/*
 * pin.c - whether a cache was destroyed; records on the stacks of threads that keep it from that, and the wait for their end.
 */
#include "cache/pin.h"

#include "base/hooks.h"
#include "base/placed.h"
#include "base/raw.h"
#include "base/report.h"
#include "cache/cache_list.h"

#include <errno.h>

struct cache_list cache_list;
static __thread struct pin *pin_top __attribute__((tls_model("initial-exec")));

__attribute__((cold)) bool pin_alive(struct stook_cache *cache)
{
    if (__atomic_load_n(&cache->alive, __ATOMIC_RELAXED))
        return true;
    if ((cache->flags & CACHE_KEPT) && hooks.cache)
        (void)hooks.cache(cache, HOOKS_CACHE_IS_GONE);
    errno = EINVAL;
    return false;
}

void pin_begin(struct pin *pin)
{
    *pin = (struct pin){.below = pin_top};
    pin_top = pin;
}

void pin_end(struct pin *pin)
{
    STOOK_ASSERT(!pin->one && pin_top == pin);
    pin_top = pin->below;
}

/* Handlers may fork between any two of these stores: what is counted is in the record before and after. */
void pin_set(struct pin *pin, struct stook_cache *cache)
{
    struct stook_cache *before = pin->one;

    if (cache)
        cache->pins++;
    pin->one = cache;
    /* Only destroying waits, and only once the cache is not alive. */
    if (before && --before->pins == 0 && !before->alive) {
        atomic_fetch_add_explicit(&cache_list.turn, 1, memory_order_relaxed);
        raw_wake(&cache_list.turn, INT32_MAX);
    }
}

/* The next older cache, or NULL.  Under the list's lock. */
static struct stook_cache *pin_next(struct list *link)
{
    for (link = link->prev; link != &cache_list.all; link = link->prev) {
        struct stook_cache *cache = LIST_ENTRY(link, struct stook_cache, link);
        if (cache->alive)
            return cache;
    }
    return NULL;
}

void pin_each(bool (*act)(struct stook_cache *cache, void *arg), void *arg)
{
    struct pin pin;
    bool more;

    pin_begin(&pin);
    lock_take(&cache_list.lock, LOCK_CACHES);
    pin_set(&pin, pin_next(&cache_list.all));
    while (pin.one) {
        lock_drop(&cache_list.lock, LOCK_CACHES);
        more = act(pin.one, arg);
        lock_take(&cache_list.lock, LOCK_CACHES);
        pin_set(&pin, more ? pin_next(&pin.one->link) : NULL);
    }
    lock_drop(&cache_list.lock, LOCK_CACHES);
    pin_end(&pin);
}

void pin_wait(const struct stook_cache *cache)
{
    for (;;) {
        uint32_t turn = atomic_load_explicit(&cache_list.turn, memory_order_relaxed);
        bool pinned;
        lock_take(&cache_list.lock, LOCK_CACHES);
        pinned = cache->pins > 0;
        lock_drop(&cache_list.lock, LOCK_CACHES);
        if (!pinned)
            return;
        raw_wait(&cache_list.turn, turn, 0);
    }
}

/* By the table: a handler that forked may have interrupted a change of the list.  Counts that are 0
 * already are not written, since that would copy their page. */
SECOND_TEXT void pin_child(void)
{
    for (unsigned i = 0; i < percpu.slots; i++)
        if (cache_table[i] && cache_table[i]->pins > 0)
            cache_table[i]->pins = 0;
    for (const struct pin *pin = pin_top; pin; pin = pin->below)
        if (pin->one)
            pin->one->pins++;
}
