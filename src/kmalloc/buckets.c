/* SPDX-License-Identifier: MIT */
/*
 * buckets.c - the calls of stook/kmem.h on sets of caches with kmalloc's sizes (kmem_buckets_create), and kmalloc with
 * a set, an alignment, a node and a charge.  struct stook_kmem_buckets is a struct kmalloc_set.  Sizes above
 * STOOK_KMALLOC_CACHE_MAX are whole pages, of no set.
 */
#include <stook/kmem_private.h>

#include "base/grow.h"
#include "base/where.h"
#include "kmalloc/kmalloc.h"
#include "os/topology.h"
#include "slab/cache.h"

#include <errno.h>

enum {
    BUCKETS_FLAGS = STOOK_CACHE_HWALIGN | STOOK_CACHE_ACCOUNT | STOOK_CACHE_RANDOM |
                    STOOK_CACHE_ZERO_ON_FREE | STOOK_CACHE_QUARANTINE | STOOK_CACHE_GUARD_PAGES |
                    STOOK_CACHE_OWN_PAGES | CACHE_DEBUG,
};

static struct kmalloc_set *buckets_set(struct stook_kmem_buckets *buckets)
{
    return (struct kmalloc_set *)(void *)buckets;
}

struct stook_kmem_buckets *stook_kmem_buckets_create(const char *name,
                                                     const struct stook_cache_args *given)
{
    struct kmalloc_set *set;
    struct stook_cache_args args = {0};

    if (!name || !grow_read(&args, sizeof(args), given) ||
        (args.flags & ~(unsigned)BUCKETS_FLAGS) || args.align || args.dtor || args.sheaf_capacity ||
        args.cached_bytes_max || args.slab_bytes_max ||
        ((args.flags & STOOK_CACHE_ZERO_ON_FREE) && args.ctor)) {
        errno = EINVAL;
        return NULL;
    }
    set = stook_kmalloc_from(sizeof(*set), STOOK_ZERO, where_address(__builtin_return_address(0)));
    if (set && !stook_kmalloc_fill_set(set, name, &args)) {
        int error = errno;
        (void)stook_kmem_buckets_destroy((struct stook_kmem_buckets *)(void *)set);
        errno = error;
        return NULL;
    }
    return (struct stook_kmem_buckets *)(void *)set;
}

int stook_kmem_buckets_destroy(struct stook_kmem_buckets *buckets)
{
    struct kmalloc_set *set = buckets_set(buckets);
    int result = 0;

    if (!set)
        return 0;
    for (unsigned class = 0; class < KMALLOC_CLASSES; class ++) {
        if (stook_cache_destroy(set->cache[class]) == 0)
            set->cache[class] = NULL;
        else
            result = -1;
    }
    if (result == 0)
        stook_free_any(set);
    return result;
}

/* Without buckets: kmalloc's own, or those that are charged. */
static struct kmalloc_set *buckets_or(struct stook_kmem_buckets *buckets, unsigned flags)
{
    if (buckets)
        return buckets_set(buckets);
    return flags & STOOK_KMEM_ACCOUNT ? &stook_kmalloc_charged : &stook_kmalloc_plain;
}

/* Kernel code names nodes that this machine lacks: then any node will do, as long as no other is ruled out. */
static int buckets_node(unsigned flags, int node)
{
    return (flags & STOOK_THISNODE) || topology_has_node(node) ? node : -1;
}

void *stook_kmem_alloc(struct stook_kmem_buckets *buckets, size_t size, size_t align,
                       unsigned flags, int node)
{
    return stook_kmalloc_on(buckets_or(buckets, flags), size, align, flags & ~STOOK_KMEM_ACCOUNT,
                            buckets_node(flags, node), where_address(__builtin_return_address(0)));
}

void *stook_kmem_realloc(const void *object, size_t size, size_t align, unsigned flags, int node)
{
    return stook_krealloc_on(buckets_or(NULL, flags), (void *)(uintptr_t)object, size, align,
                             flags & ~STOOK_KMEM_ACCOUNT, buckets_node(flags, node),
                             where_address(__builtin_return_address(0)));
}
