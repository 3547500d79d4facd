/* SPDX-License-Identifier: MIT */
/*
 * kmalloc_node.c - kmalloc of a node that the caller names, with an alignment, of arrays, and for a new size.
 */
#include <stook/kmalloc.h>

#include "cache/alloc.h"
#include "base/where.h"
#include "charge/account.h"
#include "charge/alloc_with.h"
#include "debug/object.h"
#include "kmalloc/kmalloc.h"
#include "kmalloc/private.h"
#include "os/topology.h"
#include "slab/slab.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>

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
                    ? alloc_on_node(cache, plain | STOOK_THISNODE, (int)wanted, where, HOOKS_GROUP)
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
 * The size whose class is aligned enough; 0 with errno EINVAL: `align` is none.  A class is aligned to the largest power of two
 * that divides it, whole pages to a page, and a power of two to itself.
 */
static size_t kmalloc_aligned(size_t size, size_t align)
{
    size_t class;

    if ((align & (align - 1)) || align > BLOCK_SIZE) {
        errno = EINVAL;
        return 0;
    }
    class = stook_kmalloc_size(size);
    if (size > BLOCK_SIZE || /* whole blocks are aligned to a block */
        (size > STOOK_KMALLOC_CACHE_MAX ? align <= PAGE_SIZE : (class & -class) >= align))
        return size;
    return size <= align ? align : (size_t)1 << (64 - __builtin_clzll(size - 1));
}

/* At a multiple of `align`, of a node or (-1) of any. */
static void *kmalloc_on(size_t size, size_t align, unsigned flags, int node, uint64_t where)
{
    unsigned plain = flags & ~STOOK_THISNODE;
    void *object;

    if (node != -1 && !topology_has_node(node)) {
        errno = EINVAL;
        return NULL;
    }
    if (size > 0 && (size = kmalloc_aligned(size, align)) == 0)
        return NULL;
    /* The fast path first: it knows the class, and mostly that is of the right node. */
    object = stook_kmalloc_from(size, plain, where);
    if (node == -1 || kmalloc_is_none(object))
        return object;
    return kmalloc_of_node(object, size, plain & ~(STOOK_NOFAIL | STOOK_ACCOUNT),
                           flags & STOOK_THISNODE, node, where,
                           flags & STOOK_ACCOUNT ? ACCOUNT_CURRENT : ACCOUNT_NOBODY);
}

/* The arguments, and the node in *node, of a call on memory without a cache; NULL with errno EINVAL. */
static const struct stook_alloc_args *kmalloc_args(const struct stook_alloc_args *args,
                                                   struct stook_alloc_args *copy, unsigned flags,
                                                   int *node)
{
    args = alloc_with_args(args, copy);
    if (!args)
        return NULL;
    *node = flags & STOOK_NODE ? args->node : -1;
    if (!args->group && !args->fail && ((flags & STOOK_NODE) || !(flags & STOOK_THISNODE)))
        return args;
    errno = EINVAL;
    return NULL;
}

/* The fast path is stook_kmalloc_from()'s. */
void *stook_kmalloc_with(size_t size, unsigned flags, const struct stook_alloc_args *args)
{
    struct stook_alloc_args copy;
    uint64_t where;
    int node;

    args = kmalloc_args(args, &copy, flags, &node);
    if (!args)
        return NULL;
    where = alloc_with_where(args, __builtin_return_address(0));
    if (node == -1 && args->align == 0)
        return stook_kmalloc_from(size, flags & ~(STOOK_NODE | STOOK_THISNODE), where);
    return kmalloc_on(size, args->align, flags & ~STOOK_NODE, node, where);
}

/* ---- change --------------------------------------------------------------------------------- */

static void *kmalloc_zero_from(void *object, size_t from, unsigned flags)
{
    size_t usable = flags & STOOK_ZERO ? stook_usable_size(object) : 0;

    if (usable > from)
        memset((char *)object + from, 0, usable - from);
    return object;
}

/* Usable bytes of an object that is to get another size; 0 with errno: it is none, or is free, which is reported. */
static size_t krealloc_usable(void *object)
{
    size_t usable;

    if (!stook_private_live(object, "stook_krealloc")) {
        errno = ENOMEM;
        return 0;
    }
    usable = stook_usable_size(object);
    if (__builtin_expect(usable == 0, 0)) /* no object: the program goes on */
        errno = EINVAL;
    return usable;
}

/* In place if the object may stay where it is. */
static void *krealloc_on(void *object, size_t size, size_t align, unsigned flags, int node,
                         uint64_t where)
{
    /* An object that moves by its pages is of any node, and charged to no group. */
    bool stays, slab, by_pages = !(flags & STOOK_ACCOUNT) && node == -1;
    size_t had, kept;
    void *fresh;

    if (kmalloc_is_none(object))
        return kmalloc_on(size, align, flags, node, where);
    if (size == 0) {
        stook_free_any(object);
        return STOOK_KMALLOC_NONE;
    }
    size = kmalloc_aligned(size, align);
    if (size == 0 || (had = krealloc_usable(object)) == 0)
        return NULL;
    kept = size < had ? size : had;
    slab = slab_cache_of(object) != NULL;
    stays = (align == 0 || !((uintptr_t)object & (align - 1))) &&
            !((flags & STOOK_THISNODE) && node != -1 && stook_node_of(object) != node);
    if (stays && (size <= had || by_pages) && !slab && had > STOOK_KMALLOC_CACHE_MAX &&
        size > STOOK_KMALLOC_CACHE_MAX && size <= PTRDIFF_MAX && !(flags & STOOK_SIGNAL_SAFE)) {
        fresh = stook_private_large_resize(object, size,
                                           where & 1 ? NULL : (void *)(uintptr_t)(where >> 1));
        if (fresh)
            return kmalloc_zero_from(fresh, kept, flags);
    }
    if (stays && size <= had && (slab || size > STOOK_KMALLOC_CACHE_MAX)) {
        stook_private_resized(object, size);
        return kmalloc_zero_from(object, size, flags);
    }
    fresh = kmalloc_on(size, align, flags & ~STOOK_ZERO, node, where);
    if (!fresh) /* what shrinks need not move */
        return stays && size <= had && errno != EINVAL ? kmalloc_zero_from(object, size, flags)
                                                       : NULL;
    memcpy(fresh, object, kept);
    stook_free_any(object);
    return kmalloc_zero_from(fresh, kept, flags);
}

void *stook_krealloc(void *object, size_t size, unsigned flags)
{
    return krealloc_on(object, size, 0, flags, -1, where_address(__builtin_return_address(0)));
}

void *stook_krealloc_with(void *object, size_t size, unsigned flags,
                          const struct stook_alloc_args *args)
{
    struct stook_alloc_args copy;
    int node;

    args = kmalloc_args(args, &copy, flags, &node);
    if (!args)
        return NULL;
    return krealloc_on(object, size, args->align, flags & ~STOOK_NODE, node,
                       alloc_with_where(args, __builtin_return_address(0)));
}
