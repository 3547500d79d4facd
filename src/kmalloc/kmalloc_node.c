/* SPDX-License-Identifier: MIT */
/*
 * kmalloc_node.c - stook_kmalloc_node(): any size, of a node that the caller names.
 */
#include <stook/kmalloc.h>

#include "cache/alloc.h"
#include "base/where.h"
#include "charge/account.h"
#include "debug/object.h"
#include "kmalloc/kmalloc.h"
#include "os/topology.h"
#include "slab/slab.h"

#include <errno.h>

void *stook_kmalloc_of_node(void *object, size_t size, unsigned plain, bool strict, int node,
                            uint64_t where, uint32_t owner)
{
    unsigned wanted = topology.home_of_node[node];
    struct debug_asks before;
    struct stook_cache *cache;
    void *found = NULL;
    int saved = errno;

    if (!pagemap_covers(object)) { /* beside a fork: of the node that writes to it first */
        if (!strict)
            return object;
    } else if (pagemap_node(object) == wanted && (wanted == (unsigned)node || !strict))
        return object;
    if (wanted == (unsigned)node || !strict) {
        cache = slab_cache_of(object);
        before = debug_ask((struct debug_asks){size, DEBUG_CALL_ANY, NULL});
        found = cache
                    ? alloc_on_node(cache, plain | STOOK_THISNODE, (int)wanted, where)
                    : stook_kmalloc_large(size, plain | STOOK_NORECLAIM, (int)wanted, where, owner);
        (void)debug_ask(before);
    }
    if (found || strict) {
        stook_free_any(object);
        errno = found ? saved : ENOMEM;
        return found;
    }
    errno = saved;
    return object;
}

void *stook_kmalloc_node_from(size_t size, unsigned flags, int node, uint64_t where)
{
    unsigned plain = flags & ~STOOK_THISNODE;
    void *object;

    if (node != -1 && !topology_has_node(node)) {
        errno = EINVAL;
        return NULL;
    }
    /* The ordinary way first: it knows the class, and mostly that is of the right node. */
    object = stook_kmalloc_from(size, plain, where);
    if (node == -1 || kmalloc_is_none(object))
        return object;
    return stook_kmalloc_of_node(object, size, plain & ~STOOK_NOFAIL, flags & STOOK_THISNODE, node,
                                 where, ACCOUNT_NOBODY);
}

void *stook_kmalloc_node(size_t size, unsigned flags, int node)
{
    return stook_kmalloc_node_from(size, flags, node, where_address(__builtin_return_address(0)));
}
