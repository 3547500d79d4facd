/* SPDX-License-Identifier: MIT */
/*
 * alloc_with.c - stook_alloc_with() and stook_alloc_bulk_with(): allocations whose caller says more than the flags.
 *
 * What a call says ends in the words that all allocations pass on: where it comes from (base/where.h), the group that pays
 * and the node.  No lock.  kmalloc/kmalloc_node.c has stook_kmalloc_with().
 */
#include "charge/alloc_with.h"

#include "charge/accounted.h"
#include "charge/group.h"

#include <errno.h>

const struct stook_alloc_args *alloc_with_args(const struct stook_alloc_args *args,
                                               struct stook_alloc_args *copy)
{
    if (__builtin_expect(args->size != sizeof(*args), 0)) {
        if (!grow_read(copy, sizeof(*copy), args)) {
            errno = EINVAL;
            return NULL;
        }
        args = copy;
    }
    return args;
}

/* Those of objects of a cache, whose alignment the cache says. */
static const struct stook_alloc_args *alloc_with_cache_args(const struct stook_alloc_args *args,
                                                            struct stook_alloc_args *copy)
{
    args = alloc_with_args(args, copy);
    if (!args || args->align == 0)
        return args;
    errno = EINVAL;
    return NULL;
}

/* The number of the group that pays; false with errno EINVAL: it was destroyed. */
static bool alloc_with_group(const struct stook_alloc_args *args, uint32_t *number)
{
    *number = ACCOUNT_CURRENT;
    if (!args->group)
        return true;
    *number = args->group->id ? group_number(*args->group) : ACCOUNT_NOBODY;
    if (*number != 0 || !args->group->id)
        return true;
    errno = EINVAL;
    return false;
}

/* What the fast path did not have.  args->fail() may throw: CMakeLists.txt compiles this file so that it can. */
static __attribute__((noinline)) void *alloc_with_rest(struct stook_cache *cache, unsigned flags,
                                                       const struct stook_alloc_args *args,
                                                       const void *to)
{
    struct stook_alloc_args copy;
    void *object = NULL;
    uint32_t group;
    uint64_t where;

    args = alloc_with_cache_args(args, &copy);
    if (!args)
        return NULL;
    where = alloc_with_where(args, to);
    if (alloc_with_group(args, &group))
        object = flags & STOOK_NODE
                     ? alloc_on_node(cache, flags & ~STOOK_NODE, args->node, where, group)
                     : accounted_alloc(cache, flags, where, group);
    return object || !args->fail ? object : args->fail(cache, flags);
}

/* Arguments of this version are not read where the CPU's sheaf has an object: a cache whose calls are counted, charged or
 * checked has no sheaf there. */
__attribute__((aligned(64))) void *stook_alloc_with(struct stook_cache *cache, unsigned flags,
                                                    const struct stook_alloc_args *args)
{
    void *object;

    if (alloc_is_fast(flags) && __builtin_expect(args->size == sizeof(*args), 1) &&
        __builtin_expect(stook_rseq_pop(cache->head.slots, cache->head.rseq_offset, &object), 1))
        return object;
    return alloc_with_rest(cache, flags, args, __builtin_return_address(0));
}

int stook_alloc_bulk_with(struct stook_cache *cache, unsigned flags, size_t n, void **objects,
                          const struct stook_alloc_args *args)
{
    struct stook_alloc_args copy;
    uint32_t group;

    args = alloc_with_cache_args(args, &copy);
    if (!args || !alloc_with_group(args, &group))
        return -1;
    if (args->fail) {
        errno = EINVAL;
        return -1;
    }
    if (!cache_hooks(cache))
        return stook_alloc_bulk(cache, flags, n, objects);
    return accounted_alloc_bulk(cache, flags, n, objects,
                                alloc_with_where(args, __builtin_return_address(0)), group) == n
               ? 0
               : -1;
}
