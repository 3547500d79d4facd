/* SPDX-License-Identifier: MIT */
/*
 * kmem_vmalloc.h - stook/kmem.h's vmalloc(): memory that begins on a page, of kmalloc()'s.  0 bytes are ZERO_SIZE_PTR, as
 * there.  STOOK_KMEM_NO_VMALLOC leaves it out.
 */
#ifndef STOOK_KMEM_VMALLOC_H
#define STOOK_KMEM_VMALLOC_H

#include <stook/kmem_kmalloc.h>

#include <stddef.h>

STOOK_C_BEGIN

static inline STOOK_MALLOC(1) void *__vmalloc_node(size_t size, unsigned long align, gfp_t gfp,
                                                   int node, const void *caller)
{
    (void)caller;
    return kvmalloc_node_align(size, align > 4096 ? align : 4096, gfp, node);
}

static inline STOOK_MALLOC(1) void *__vmalloc(size_t size, gfp_t gfp)
{
    return __vmalloc_node(size, 1, gfp, NUMA_NO_NODE, NULL);
}

static inline STOOK_MALLOC(1) void *vmalloc(size_t size)
{
    return __vmalloc(size, GFP_KERNEL);
}

static inline STOOK_MALLOC(1) void *vzalloc(size_t size)
{
    return __vmalloc(size, GFP_KERNEL | __GFP_ZERO);
}

/* As kvrealloc_node_align(), and on a page. */
static inline STOOK_SIZED(2) void *vrealloc_node_align(const void *object, size_t size,
                                                       unsigned long align, gfp_t gfp, int node)
{
    return kvrealloc_node_align(object, size, align > 4096 ? align : 4096, gfp, node);
}

static inline void vfree(const void *object)
{
    kvfree(object);
}

#define vfree_atomic vfree
#define vmalloc_user vzalloc
#define vmalloc_32 vmalloc
#define vmalloc_32_user vzalloc
#define vmalloc_huge __vmalloc
#define vmalloc_huge_node(size, gfp, node) __vmalloc_node(size, 1, gfp, node, NULL)
#define vmalloc_node(size, node) __vmalloc_node(size, 1, GFP_KERNEL, node, NULL)
#define vzalloc_node(size, node) __vmalloc_node(size, 1, GFP_KERNEL | __GFP_ZERO, node, NULL)
#define vmalloc_array(n, size) vmalloc(stook_array_bytes(n, size))
#define vcalloc(n, size) vzalloc(stook_array_bytes(n, size))
#define __vmalloc_array(n, size, gfp) __vmalloc(stook_array_bytes(n, size), gfp)
#define __vcalloc(n, size, gfp) __vmalloc(stook_array_bytes(n, size), (gfp) | __GFP_ZERO)
#define vrealloc_node(object, size, gfp, node) vrealloc_node_align(object, size, 1, gfp, node)
#define vrealloc(object, size, gfp) vrealloc_node_align(object, size, 1, gfp, NUMA_NO_NODE)
#define vmalloc_noprof vmalloc
#define vzalloc_noprof vzalloc
#define vmalloc_node_noprof vmalloc_node
#define vzalloc_node_noprof vzalloc_node
#define vmalloc_array_noprof vmalloc_array
#define vcalloc_noprof vcalloc
#define vrealloc_node_align_noprof vrealloc_node_align

STOOK_C_END

#endif /* STOOK_KMEM_VMALLOC_H */
