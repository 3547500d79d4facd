/* SPDX-License-Identifier: MIT */
/* with.h - stook_alloc_with() with one of its arguments.  In the core alone support/ops_core.h stands for it. */
#ifndef TESTS_SUPPORT_WITH_H
#define TESTS_SUPPORT_WITH_H

#ifndef TESTS_SUPPORT_OPS_CORE_H

#include <stook/group.h>
#include <stook/kmalloc.h>

#define WITH_INLINE static inline __attribute__((always_inline, unused))

WITH_INLINE void *alloc_with_site(struct stook_cache *cache, unsigned flags,
                                  struct stook_site *site)
{
    struct stook_alloc_args args = {.size = sizeof(args), .site = site};

    return stook_alloc_with(cache, flags, &args);
}

WITH_INLINE void *alloc_with_from(struct stook_cache *cache, unsigned flags, const void *from)
{
    struct stook_alloc_args args = {.size = sizeof(args), .from = from};

    return stook_alloc_with(cache, flags, &args);
}

WITH_INLINE void *alloc_with_group(struct stook_cache *cache, unsigned flags,
                                   struct stook_group group)
{
    struct stook_alloc_args args = {.size = sizeof(args), .group = &group};

    return stook_alloc_with(cache, flags, &args);
}

WITH_INLINE void *alloc_with_node(struct stook_cache *cache, unsigned flags, int node)
{
    struct stook_alloc_args args = {.size = sizeof(args), .node = node};

    return stook_alloc_with(cache, flags | STOOK_NODE, &args);
}

WITH_INLINE void *kmalloc_with_node(size_t size, unsigned flags, int node)
{
    struct stook_alloc_args args = {.size = sizeof(args), .node = node};

    return stook_kmalloc_with(size, flags | STOOK_NODE, &args);
}

#endif
#endif
