/* SPDX-License-Identifier: MIT */
/*
 * memcached_cache.c - memcached's object caches (read buffers, I/O, queued connections) as caches of Stook: build.sh
 * compiles it as cache.c there.
 *
 * memcached's cache.h asks for the names.  `total` is the number of objects in use, and `freecurr` stays 0: what is free is
 * Stook's.  The caller of a do_ function is the only thread that uses the cache; no cache of Stook needs to know.
 * memcached's debug build checks the bytes around each object.
 */
#include <stdlib.h>

#include "cache.h"

#include <stook/inline.h>

struct object_cache {
    cache_t shown; /* what memcached reads */
    struct stook_cache *objects;
};

#ifndef NDEBUG
int cache_error; /* stays 0: Stook reports */
#endif

static struct stook_cache *objects_of(cache_t *cache)
{
    return ((struct object_cache *)cache)->objects;
}

cache_t *cache_create(const char *name, size_t bufsize, size_t align)
{
    struct object_cache *cache = calloc(1, sizeof(*cache));
    struct stook_cache_args args = {.size = sizeof(args), .align = align};

    if (!cache)
        return NULL;
#ifndef NDEBUG
    args.flags = STOOK_CACHE_DEBUG_CHECKS | STOOK_CACHE_DEBUG_RED_ZONE;
#endif
    cache->objects = stook_cache_create(name, bufsize, &args);
    if (!cache->objects) {
        free(cache);
        return NULL;
    }
    return &cache->shown;
}

/* While objects are in use, Stook's cache stays. */
void cache_destroy(cache_t *cache)
{
    if (cache->total == 0)
        stook_cache_destroy(objects_of(cache));
    free(cache);
}

void cache_set_limit(cache_t *cache, int limit)
{
    __atomic_store_n(&cache->limit, limit, __ATOMIC_RELAXED);
}

void *cache_alloc(cache_t *cache)
{
    int limit = __atomic_load_n(&cache->limit, __ATOMIC_RELAXED);
    void *object = NULL;

    if (__atomic_add_fetch(&cache->total, 1, __ATOMIC_RELAXED) <= limit || limit == 0)
        object = stook_alloc_inline(objects_of(cache), STOOK_NORECLAIM);
    if (!object)
        __atomic_sub_fetch(&cache->total, 1, __ATOMIC_RELAXED);
    return object;
}

void cache_free(cache_t *cache, void *object)
{
    __atomic_sub_fetch(&cache->total, 1, __ATOMIC_RELAXED);
    stook_free_inline(objects_of(cache), object);
}

void *do_cache_alloc(cache_t *cache)
{
    return cache_alloc(cache);
}

void do_cache_free(cache_t *cache, void *object)
{
    cache_free(cache, object);
}
