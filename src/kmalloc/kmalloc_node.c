/* SPDX-License-Identifier: MIT */
/*
 * kmalloc_node.c - kmalloc with an alignment and a node that the caller names.
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

/*
 * `object`, which was allocated wherever the thread runs, or another one of that node in its place, of the same cache.
 * `plain` are the flags without STOOK_THISNODE and STOOK_NOFAIL; `strict`: NULL rather than another node's.
 */
static void *kmalloc_of_node(void *object, size_t size, unsigned plain, bool strict, int node,
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

/*
 * A class is aligned to the largest power of two that divides it, whole pages to a page, and a power of two to itself.
 */
size_t stook_kmalloc_aligned(size_t size, size_t align)
{
    size_t class;

    if (align == 0 || (align & (align - 1)) || align > BLOCK_SIZE) {
        errno = EINVAL;
        return 0;
    }
    class = stook_kmalloc_size(size);
    if (size > BLOCK_SIZE || /* whole blocks are aligned to a block */
        (size > STOOK_KMALLOC_CACHE_MAX ? align <= PAGE_SIZE : (class & -class) >= align))
        return size;
    return size <= align ? align : (size_t)1 << (64 - __builtin_clzll(size - 1));
}

void *stook_kmalloc_on(struct kmalloc_set *set, size_t size, size_t align, unsigned flags, int node,
                       uint64_t where)
{
    unsigned plain = flags & ~STOOK_THISNODE;
    void *object;

    if (node != -1 && !topology_has_node(node)) {
        errno = EINVAL;
        return NULL;
    }
    if (size > 0 && (size = stook_kmalloc_aligned(size, align)) == 0)
        return NULL;
    /* The fast path first: it knows the class, and mostly that is of the right node. */
    object =
        set ? stook_kmalloc_set(set, size, plain, where) : stook_kmalloc_from(size, plain, where);
    if (node == -1 || kmalloc_is_none(object))
        return object;
    return kmalloc_of_node(object, size, plain & ~STOOK_NOFAIL, flags & STOOK_THISNODE, node, where,
                           set == &kmalloc_charged ? ACCOUNT_CURRENT : ACCOUNT_NOBODY);
}

void *stook_kmalloc_node(size_t size, unsigned flags, int node)
{
    return stook_kmalloc_on(&kmalloc_plain, size, 1, flags, node,
                            where_address(__builtin_return_address(0)));
}
