/* SPDX-License-Identifier: MIT */
/*
 * kmalloc_node.c - stook_kmalloc_node(): any size, of a node that the caller names.
 */
#include <stook/kmalloc.h>

#include "cache/alloc.h"
#include "base/where.h"
#include "debug/object.h"
#include "kmalloc/kmalloc.h"
#include "os/topology.h"
#include "slab/slab.h"

#include <errno.h>

void *stook_kmalloc_node(size_t size, unsigned flags, int node)
{
    uint64_t where = where_address(__builtin_return_address(0));
    unsigned plain = flags & ~STOOK_THISNODE, wanted;
    struct debug_asks before;
    struct stook_cache *cache;
    void *object, *found = NULL;
    int saved = errno;

    if (node != -1 && !topology_has_node(node)) {
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
        before = debug_ask((struct debug_asks){size, DEBUG_CALL_ANY, NULL});
        found = cache ? alloc_on_node(cache, plain | STOOK_THISNODE, (int)wanted, where)
                      : stook_kmalloc_large(size, plain | STOOK_NORECLAIM, (int)wanted, where);
        (void)debug_ask(before);
    }
    if (found || (flags & STOOK_THISNODE)) {
        stook_free_any(object);
        errno = found ? saved : ENOMEM;
        return found;
    }
    errno = saved;
    return object;
}
