/* SPDX-License-Identifier: MIT */
/*
 * Objects of a node that the caller names.
 *
 * Of the caller's own home the ordinary path has them; of another node its barn and its slabs are
 * asked directly, since no sheaf of this CPU is to hold them.  They go home by stook_free() as any
 * other object of another node.
 */
#include "base/context.h"
#include "cache/alloc.h"
#include "cache/init.h"
#include "cache/private.h"
#include "cache/reclaim.h"
#include "percpu/percpu.h"
#include "page/large.h"
#include "sheaf/barn.h"
#include "slab/node.h"
#include "slab/stat.h"

#include <stook/kmalloc.h>

#include <errno.h>
#include <string.h>

enum { ALLOC_NODE_FLAGS = STOOK_NORECLAIM | STOOK_SIGNAL_SAFE | STOOK_ZERO };

struct alloc_node {
    struct stook_cache *cache;
    unsigned node; /* has memory */
    bool nospin;
    void *object;
};

/* Within the context: one object whose memory is the node's, or none. */
static bool alloc_node_try(void *arg)
{
    struct alloc_node *take = arg;
    void *object = NULL;

    if (cache_capacity(take->cache) > 0)
        object = barn_take_object(take->cache, take->node, take->nospin);
    if (object && pagemap_node(object) == take->node) {
        stat_add(take->cache, STAT_alloc_fastpath, 1);
        take->object = object;
        return true;
    }
    if (object) /* the node had run out of memory when that sheaf was filled */
        node_put(take->cache, &object, 1, take->nospin);
    if (node_take(take->cache, take->node, &take->object, 1, 1, take->nospin) == 1)
        stat_add(take->cache, STAT_alloc_slowpath, 1);
    else
        take->object = NULL;
    return take->object != NULL;
}

/* Past this CPU's sheaves; reclaims where the caller may. */
static void *alloc_node_direct(struct stook_cache *cache, unsigned flags, unsigned node,
                               uint64_t where)
{
    struct alloc_node take = {.cache = cache, .node = node};
    bool hooked = account_hooks(cache) != 0, nested;
    struct account account;
    int saved = errno;

    if (hooked && !account_begin(cache, &account, 1, flags, where, ACCOUNT_CURRENT))
        return NULL;
    nested = context_enter();
    take.nospin = nested || (flags & STOOK_SIGNAL_SAFE);
    (void)alloc_node_try(&take);
    context_leave();
    if (!take.object && reclaim_may(flags, nested))
        (void)reclaim_until(cache, (size_t)PAGE_SIZE << cache->layout.order, alloc_node_try, &take);
    if (hooked)
        account_end(cache, &account, &take.object, take.object != NULL, 1);
    if (take.object) {
        errno = saved;
        if (flags & STOOK_ZERO)
            memset(take.object, 0, cache->object_size);
    }
    return take.object;
}

static bool alloc_node_exists(int node)
{
    return node >= 0 && (unsigned)node < topology.nodes && topology.online_nodes >> node & 1;
}

static void *alloc_node_from(struct stook_cache *cache, unsigned flags, int node, uint64_t where)
{
    unsigned plain = flags & ~STOOK_THISNODE, wanted;
    void *object = NULL, *found;
    int saved = errno;

    if (node == -1)
        return alloc_object(cache, plain, where, ACCOUNT_CURRENT);
    if (!alloc_node_exists(node) || (plain & ~ALLOC_NODE_FLAGS) ||
        ((flags & STOOK_ZERO) && cache->ctor)) {
        errno = EINVAL;
        return NULL;
    }
    wanted = topology.home_of_node[node];
    if ((flags & STOOK_THISNODE) && wanted != (unsigned)node) {
        errno = ENOMEM;
        return NULL;
    }
    if (wanted == topology.home_of_node[percpu_node(percpu_cpu())])
        object = alloc_object(cache, plain, where, ACCOUNT_CURRENT);
    if (object && pagemap_node(object) == wanted)
        return object;
    /* Another node, or this thread moved meanwhile, or its home has run out of memory. */
    found = alloc_node_direct(cache, plain, wanted, where);
    if (found || (flags & STOOK_THISNODE)) {
        stook_free(cache, object);
        if (!found && errno != EDQUOT)
            errno = ENOMEM;
        return found;
    }
    errno = saved;
    return object ? object : alloc_object(cache, plain, where, ACCOUNT_CURRENT);
}

void *stook_alloc_node(struct stook_cache *cache, unsigned flags, int node)
{
    return alloc_node_from(cache, flags, node, account_address(__builtin_return_address(0)));
}

/* ---- of any size ---------------------------------------------------------------------------- */

/* Whole pages of the node. */
static void *alloc_node_large(size_t size, unsigned flags, unsigned node, uint64_t where)
{
    size_t align = size & (size - 1) ? PAGE_SIZE : size < BLOCK_SIZE ? size : BLOCK_SIZE;
    bool nested = context_enter(), zeroed = false;
    void *object = large_alloc(node, size, align, nested, &zeroed);

    context_leave();
    if (object && atomic_load_explicit(&account_large_hooks, memory_order_relaxed) != 0)
        (void)account_large(object, ACCOUNT_NOBODY, flags, where); /* cannot refuse */
    if (object && (flags & STOOK_ZERO) && !zeroed)
        memset(object, 0, large_size(object));
    return object;
}

void *stook_kmalloc_node(size_t size, unsigned flags, int node)
{
    uint64_t where = account_address(__builtin_return_address(0));
    unsigned plain = flags & ~STOOK_THISNODE, wanted;
    struct stook_cache *cache;
    void *object, *found = NULL;
    int saved = errno;

    if (node != -1 && !alloc_node_exists(node)) {
        errno = EINVAL;
        return NULL;
    }
    /* The ordinary way first: it knows the class, and mostly that is of the right node. */
    object = stook_kmalloc_from(size, plain, where);
    if (node == -1 || !object || object == STOOK_KMALLOC_NONE)
        return object;
    wanted = topology.home_of_node[node];
    if (!pagemap_covers(object)) { /* beside a fork: of the node that writes to it first */
        if (!(flags & STOOK_THISNODE))
            return object;
    } else if (pagemap_node(object) == wanted &&
               (wanted == (unsigned)node || !(flags & STOOK_THISNODE)))
        return object;
    if (wanted == (unsigned)node || !(flags & STOOK_THISNODE)) {
        cache = slab_cache_of(object);
        plain &= ~STOOK_NOFAIL;
        found = cache ? alloc_node_from(cache, plain | STOOK_THISNODE, (int)wanted, where)
                      : alloc_node_large(size, plain, wanted, where);
    }
    if (found || (flags & STOOK_THISNODE)) {
        stook_free_any(object);
        errno = found ? saved : ENOMEM;
        return found;
    }
    errno = saved;
    return object;
}
