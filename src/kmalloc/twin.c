/* SPDX-License-Identifier: MIT */
/*
 * twin.c - __GFP_ACCOUNT of a cache that charges no objects: a second cache like it, its twin, has those that are
 * charged.
 *
 * The twin is made when a thread of a group wants the first such object.  From then on the cache is closed
 * (CACHE_CLOSED_TWIN), so that its frees ask the page map whose an object is (account_free()).  It is closed before its
 * twin is published: a thread that was given an object of the twin sees the closed slots when it frees it.  The twin is
 * destroyed and shrunk with its cache.
 */
#include <stook/kmem_private.h>

#include "base/context.h"
#include "base/lock.h"
#include "cache/cache_list.h"
#include "charge/group.h"
#include "kmalloc/private.h"
#include "slab/cache.h"
#include "slab/stat.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>

/* "bio" becomes "bio-cg".  A long name is cut. */
static struct stook_cache *twin_make(const struct stook_cache *cache)
{
    const struct stook_cache_args args = {.size = sizeof(args),
                                          .align = cache->align,
                                          .flags = cache->flags | STOOK_CACHE_ACCOUNT,
                                          .ctor = cache->ctor,
                                          .dtor = cache->dtor,
                                          .arg = cache->arg,
                                          .sheaf_capacity =
                                              cache_level(cache) > 0 ? 0 : cache_capacity(cache)};
    static const char tail[] = "-cg";
    char name[STOOK_NAME_MAX + 1];
    size_t head = strnlen(cache->name, STOOK_NAME_MAX - (sizeof(tail) - 1));

    memcpy(name, cache->name, head);
    memcpy(name + head, tail, sizeof(tail));
    return stook_private_cache(name, cache->object_size, &args, true);
}

/* Two threads may make one each: the second destroys its own. */
static __attribute__((noinline, cold)) struct stook_cache *twin_first(struct stook_cache *cache,
                                                                      unsigned flags)
{
    struct stook_cache *twin, *none = NULL;
    int saved = errno;

    if ((flags & STOOK_SIGNAL_SAFE) || context_self()->depth > 0 || !lock_begin_blocking()) {
        errno = ENOMEM;
        return NULL;
    }
    twin = twin_make(cache);
    if (twin) {
        context_enter();
        lock_take(&cache_list.lock, LOCK_CACHES);
        stat_close(cache, CACHE_CLOSED_TWIN, true);
        /* Pairs with the acquire in stook_kmem_accounted() and account_free_twins(). */
        if (atomic_compare_exchange_strong_explicit(&cache->twin, &none, twin, memory_order_release,
                                                    memory_order_acquire))
            none = NULL;
        lock_drop(&cache_list.lock, LOCK_CACHES);
        context_leave();
    }
    if (none) {
        (void)stook_cache_destroy(twin);
        twin = none;
    }
    lock_end_blocking();
    if (twin)
        errno = saved;
    return twin;
}

struct stook_cache *stook_kmem_accounted(struct stook_cache *cache, unsigned flags)
{
    struct stook_cache *twin;

    if ((cache->flags & STOOK_CACHE_ACCOUNT) || group_current() == 0)
        return cache;
    twin = atomic_load_explicit(&cache->twin, memory_order_acquire);
    return __builtin_expect(twin != NULL, 1) ? twin : twin_first(cache, flags);
}
