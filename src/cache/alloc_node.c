/* SPDX-License-Identifier: MIT */
/*
 * Objects of a node that the caller names.
 *
 * Of the caller's own home the ordinary path has them; of another node its barn and its slabs are
 * asked directly, since no sheaf of this CPU is to hold them.  They go home by stook_free() as any
 * other object of another node.
 */
#include "base/context.h"
#include "base/hooks.h"
#include "base/where.h"
#include "cache/alloc.h"
#include "cache/reclaim.h"
#include "percpu/percpu.h"
#include "os/topology.h"
#include "sheaf/barn.h"
#include "slab/node.h"
#include "slab/stat.h"

#include <errno.h>
#include <string.h>

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
void *alloc_from_node(struct stook_cache *cache, unsigned flags, unsigned node)
{
    struct alloc_node take = {.cache = cache, .node = node};
    int saved = errno;
    bool nested = context_enter();

    take.nospin = nested || (flags & STOOK_SIGNAL_SAFE);
    (void)alloc_node_try(&take);
    context_leave();
    if (!take.object && reclaim_may(flags, nested))
        (void)reclaim_until(cache, (size_t)PAGE_SIZE << cache->layout.order, alloc_node_try, &take);
    if (take.object) {
        errno = saved;
        if (flags & STOOK_ZERO)
            memset(take.object, 0, cache->object_size);
    }
    return take.object;
}

void *alloc_on_node(struct stook_cache *cache, unsigned flags, int node, uint64_t where,
                    uint32_t group)
{
    unsigned plain = flags & ~STOOK_THISNODE, wanted;
    void *object = NULL, *found = NULL; /* a charge may be refused before objects are taken */
    int saved = errno;

    if (node == -1)
        return alloc_object(cache, plain, where, group);
    if (!topology_has_node(node) || !alloc_may(cache, plain)) {
        errno = EINVAL;
        return NULL;
    }
    wanted = topology.home_of_node[node];
    if ((flags & STOOK_THISNODE) && wanted != (unsigned)node) {
        errno = ENOMEM;
        return NULL;
    }
    if (wanted == topology.home_of_node[percpu_node(percpu_cpu())])
        object = alloc_object(cache, plain, where, group);
    if (object && pagemap_node(object) == wanted)
        return object;
    /* Another node, or this thread moved meanwhile, or its home has run out of memory. */
    if (cache_hooks(cache))
        (void)hooks.alloc_more(
            &(struct hooks_call){cache, plain, (int)wanted, where, group, 1, &found});
    else
        found = alloc_from_node(cache, plain, wanted);
    if (found || (flags & STOOK_THISNODE)) {
        stook_free(cache, object);
        if (!found && errno != EDQUOT)
            errno = ENOMEM;
        return found;
    }
    errno = saved;
    return object ? object : alloc_object(cache, plain, where, group);
}
