/* SPDX-License-Identifier: MIT */
/*
 * find.c - which caches there are, whose an object is, and which objects of a cache are live.
 */
#include "base/cancel.h"
#include "base/context.h"
#include "cache/cache_list.h"
#include "base/init.h"
#include "cache/pin.h"
#include "watch/walk.h"

#include <errno.h>
#include <string.h>

const char *stook_cache_name(const struct stook_cache *cache)
{
    return cache->name;
}

struct stook_cache *stook_cache_of(const void *object)
{
    return slab_user_cache(object);
}

/* In the library, unless a handler interrupted it; false with errno. */
static bool find_enter(void)
{
    bool started = init_once();

    if (!context_enter() && started)
        return true;
    context_leave();
    errno = EDEADLK;
    return false;
}

/* The next cache that a program may see, behind `link`.  Under the list's lock. */
static struct stook_cache *find_next(struct list *link)
{
    for (link = link->next; link != &cache_list.all; link = link->next) {
        struct stook_cache *cache = LIST_ENTRY(link, struct stook_cache, link);
        if (cache->alive && !(cache->flags & CACHE_INTERNAL))
            return cache;
    }
    return NULL;
}

struct stook_cache *stook_cache_by_name(const char *name)
{
    struct stook_cache *cache;

    if (!find_enter())
        return NULL;
    lock_take(&cache_list.lock, LOCK_CACHES);
    cache = find_next(&cache_list.all);
    while (cache && strncmp(cache->name, name, STOOK_NAME_MAX) != 0)
        cache = find_next(&cache->link);
    lock_drop(&cache_list.lock, LOCK_CACHES);
    context_leave();
    if (!cache)
        errno = ENOENT;
    return cache;
}

int stook_cache_each(int (*fn)(struct stook_cache *cache, void *arg), void *arg)
{
    struct pin pin;
    int stop = 0;

    if (!find_enter())
        return -1;
    pin_begin(&pin, NULL);
    lock_take(&cache_list.lock, LOCK_CACHES);
    pin_set(&pin, find_next(&cache_list.all));
    while (pin.one) {
        struct stook_cache *next;
        int cancel;
        lock_drop(&cache_list.lock, LOCK_CACHES);
        context_leave();
        cancel = cancel_off();
        stop = fn(pin.one, arg);
        cancel_on(cancel);
        (void)context_enter();
        lock_take(&cache_list.lock, LOCK_CACHES);
        next = stop ? NULL : find_next(&pin.one->link);
        pin_set(&pin, next);
    }
    lock_drop(&cache_list.lock, LOCK_CACHES);
    pin_end(&pin);
    context_leave();
    return 0;
}

/* Every object of the slab that is out; true: fn says that it is enough.  Outside of the library. */
static bool find_objects(const struct walk *walk, int (*fn)(void *object, void *arg), void *arg)
{
    for (uint32_t word = 0; word < (walk->objects + 63) / 64; word++)
        for (uint64_t bits = walk->out[word]; bits; bits &= bits - 1) {
            size_t index = word * 64 + (unsigned)__builtin_ctzll(bits);
            if (fn(walk->base + index * walk->cache->layout.stride, arg))
                return true;
        }
    return false;
}

int stook_cache_walk(struct stook_cache *cache, int (*fn)(void *object, void *arg), void *arg)
{
    struct walk walk;
    bool enough = false;

    if (!STOOK_ENCODED) {
        errno = ENOTSUP;
        return -1;
    }
    if (!find_enter())
        return -1;
    (void)cache_drain(&cache, 1,
                      false); /* what CPUs and barns have is out of its slab, and no user's */
    walk_begin(&walk, cache);
    while (!enough && walk_next(&walk)) {
        int cancel;
        context_leave();
        cancel = cancel_off();
        enough = find_objects(&walk, fn, arg);
        cancel_on(cancel);
        (void)context_enter();
    }
    context_leave();
    return 0;
}
