/* SPDX-License-Identifier: MIT */
/*
 * find.c - which caches there are, whose an object is, and which objects of a cache are live.
 *
 * A full slab is on no list, so only the page map has all slabs.  A thread that frees a slab clears its entries first and
 * then takes its zone's lock.  So under that lock a slab that has an entry has its descriptor, too.
 */
#include "base/cancel.h"
#include "base/context.h"
#include "cache/cache_list.h"
#include "base/init.h"
#include "cache/pin.h"
#include "watch/stats.h"
#include "harden/quarantine.h"
#include "page/zone.h"
#include "slab/mark.h"
#include "slab/slab.h"

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

/* The next cache behind `link` that a program may see.  Under the list's lock. */
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
    pin_begin(&pin);
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

/* ---- live objects ----------------------------------------------------------------------------- */

/* Where a walk is, and the slab that it has come to. */
struct walk {
    struct stook_cache *cache;
    size_t page; /* the next page to visit, in the window */
    char *base;  /* of the slab: its first object */
    uint32_t objects;
    uint64_t out[(STOOK_SLAB_OBJECTS_MAX + 63) / 64]; /* a bit an object: it is out of its slab */
};

/* Marks are written by the threads that move objects, without a lock: what is in motion may be either. */
__attribute__((no_sanitize("thread"))) static bool walk_read(struct walk *walk,
                                                             const struct slab *slab, uint64_t word)
{
    bool any = false;

    walk->base = slab_first(walk->cache, slab);
    walk->objects = slab_objects(walk->cache, word);
    memset(walk->out, 0, (walk->objects + 63) / 64 * sizeof(walk->out[0]));
    for (uint32_t i = 0; i < walk->objects; i++)
        if (mark_is_out(walk->cache, slab, i) && quarantine_is_live(walk->cache, slab, i)) {
            walk->out[i / 64] |= (uint64_t)1 << i % 64;
            any = true;
        }
    return any;
}

/* The slab that begins at this page, if one does.  The marks of an empty slab are not valid. */
static bool walk_slab(struct walk *walk, size_t page)
{
    char *base = (char *)pagemap.base + (page << PAGE_SHIFT);
    struct zone *zone = &zone_all.zone[pagemap_zone(base)];
    bool any = false;
    uint32_t entry;

    lock_take(&zone->lock, LOCK_ARENA);
    entry = __atomic_load_n(&pagemap.entry[page], __ATOMIC_ACQUIRE);
    if (pagemap_cache(entry) == walk->cache->index) {
        const struct slab *slab = slab_at(base, entry);
        uint64_t word = atomic_load_explicit(&slab->state, memory_order_acquire);
        if (slab->page == page && slab_inuse(word) > 0)
            any = walk_read(walk, slab, word);
    }
    lock_drop(&zone->lock, LOCK_ARENA);
    return any;
}

/* The next slab with an object out of it; false: there is none.  Inside the library, without locks. */
static bool walk_next(struct walk *walk)
{
    while ((walk->page = slab_search(walk->cache, walk->page)) < SIZE_MAX)
        if (walk_slab(walk, walk->page++))
            return true;
    return false;
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
    struct walk walk = {.cache = cache};
    bool enough = false;

    if (!STOOK_ENCODED) {
        errno = ENOTSUP;
        return -1;
    }
    if (!pin_alive(cache) || !find_enter())
        return -1;
    (void)cache_drain(&cache, 1,
                      false); /* what CPUs and barns have is out of its slab, and no user's */
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
