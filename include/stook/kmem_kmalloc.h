/* SPDX-License-Identifier: MIT */
/* kmem_kmalloc.h - stook/kmem.h's memory of any size. */
#ifndef STOOK_KMEM_KMALLOC_H
#define STOOK_KMEM_KMALLOC_H

#include <stook/kmalloc.h>
#include <stook/kmem_gfp.h>
#include <stook/stook.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

STOOK_C_BEGIN

#ifndef NUMA_NO_NODE
#define NUMA_NO_NODE (-1)
#endif

/* ---- kmalloc --------------------------------------------------------------------------------- */

#define KMALLOC_SHIFT_LOW 3
#define KMALLOC_SHIFT_HIGH 13
#define KMALLOC_SHIFT_MAX 22
#define KMALLOC_MIN_SIZE 8
#define KMALLOC_MAX_CACHE_SIZE 8192UL
#define KMALLOC_MAX_SIZE                                                                           \
    (4UL << 20) /* what the kernel has at most; here larger ones are fine too */
#define ARCH_KMALLOC_MINALIGN 8
#define ZERO_SIZE_PTR STOOK_KMALLOC_NONE /* kmalloc(0) */
#define ZERO_OR_NULL_PTR(object) (STOOK_CAST(uintptr_t, object) <= 16)

static inline unsigned kmem_kmalloc_flags(gfp_t gfp)
{
    return kmem_stook_flags(gfp) | (kmem_stook_must(gfp) ? STOOK_NOFAIL : 0) |
           (gfp & KMEM_GFP_ACCOUNT ? STOOK_ACCOUNT : 0);
}

static inline STOOK_MALLOC(1) void *kmalloc(size_t size, gfp_t gfp)
{
    return (stook_kmalloc)(size, kmem_kmalloc_flags(gfp));
}

static inline STOOK_MALLOC(1) void *kzalloc(size_t size, gfp_t gfp)
{
    return kmalloc(size, gfp | __GFP_ZERO);
}

static inline STOOK_MALLOC(1, 2) void *kmalloc_array(size_t n, size_t size, gfp_t gfp)
{
    return kmalloc(stook_array_bytes(n, size), gfp);
}

static inline STOOK_MALLOC(1, 2) void *kcalloc(size_t n, size_t size, gfp_t gfp)
{
    return kmalloc_array(n, size, gfp | __GFP_ZERO);
}

/* The arguments of a call with an alignment and a node; an alignment that no call has where `align` is none. */
static inline struct stook_alloc_args kmem_stook_on(unsigned long align, int node)
{
    const struct stook_alloc_args args = {
        sizeof(args), NULL, NULL, NULL, NULL, node, align - 1 < (2ul << 20) ? (unsigned)align : 3};

    return args;
}

/* Kernel code names nodes that this machine lacks: then any node will do, unless STOOK_THISNODE is given. */
static inline bool kmem_stook_on_any(struct stook_alloc_args *args, unsigned flags, int saved)
{
    if (errno != EINVAL || args->node == NUMA_NO_NODE || (flags & STOOK_THISNODE))
        return false;
    args->node = NUMA_NO_NODE;
    errno = saved;
    return true;
}

/* Not inlined: compilers know the size of what a call returns, but not through the test of its result. */
static __attribute__((noinline, unused))
STOOK_MALLOC(1) void *kmem_stook_alloc_on(size_t size, unsigned long align, unsigned flags,
                                          int node)
{
    struct stook_alloc_args args = kmem_stook_on(align, node);
    int saved = errno;
    void *object;

    args.from = __builtin_return_address(0);
    object = stook_kmalloc_with(size, flags | STOOK_NODE, &args);
    if (!object && kmem_stook_on_any(&args, flags, saved))
        object = stook_kmalloc_with(size, flags | STOOK_NODE, &args);
    return object;
}

static __attribute__((noinline, unused))
STOOK_SIZED(2) void *kmem_stook_realloc_on(const void *object, size_t size, unsigned long align,
                                           unsigned flags, int node)
{
    struct stook_alloc_args args = kmem_stook_on(align, node);
    void *old = (void *)(uintptr_t)object, *fresh;
    int saved = errno;

    args.from = __builtin_return_address(0);
    fresh = stook_krealloc_with(old, size, flags | STOOK_NODE, &args);
    if (!fresh && kmem_stook_on_any(&args, flags, saved))
        fresh = stook_krealloc_with(old, size, flags | STOOK_NODE, &args);
    return fresh;
}

static inline STOOK_MALLOC(1) void *kmalloc_node(size_t size, gfp_t gfp, int node)
{
    return kmem_stook_alloc_on(size, 1, kmem_kmalloc_flags(gfp) | kmem_stook_node_flags(gfp), node);
}

static inline STOOK_MALLOC(1) void *kzalloc_node(size_t size, gfp_t gfp, int node)
{
    return kmalloc_node(size, gfp | __GFP_ZERO, node);
}

static inline STOOK_MALLOC(1, 2) void *kmalloc_array_node(size_t n, size_t size, gfp_t gfp,
                                                          int node)
{
    return kmalloc_node(stook_array_bytes(n, size), gfp, node);
}

static inline STOOK_MALLOC(1, 2) void *kcalloc_node(size_t n, size_t size, gfp_t gfp, int node)
{
    return kmalloc_node(stook_array_bytes(n, size), gfp | __GFP_ZERO, node);
}

/* From any context, also a signal handler that interrupted this library: it takes no lock that is held.  Sizes up to
 * KMALLOC_MAX_CACHE_SIZE.  Of gfp only __GFP_ZERO and __GFP_ACCOUNT count.  The node is a wish. */
static inline STOOK_MALLOC(1) void *kmalloc_nolock(size_t size, gfp_t gfp, int node)
{
    unsigned flags = STOOK_SIGNAL_SAFE | (gfp & __GFP_ZERO ? STOOK_ZERO : 0) |
                     (gfp & KMEM_GFP_ACCOUNT ? STOOK_ACCOUNT : 0);

    return kmem_stook_alloc_on(size, 1, flags, node);
}

/*
 * As krealloc(9): size 0 frees and gives ZERO_SIZE_PTR; with __GFP_ZERO in all calls new bytes are 0.  `align` is a
 * power of two up to 2 MiB.  An object that is not aligned so moves, and with __GFP_THISNODE one of another node.
 */
static inline STOOK_SIZED(2) void *krealloc_node_align(const void *object, size_t size,
                                                       unsigned long align, gfp_t gfp, int node)
{
    return kmem_stook_realloc_on(object, size, align,
                                 kmem_kmalloc_flags(gfp) | kmem_stook_node_flags(gfp), node);
}

static inline STOOK_SIZED(2) void *krealloc_node(const void *object, size_t size, gfp_t gfp,
                                                 int node)
{
    return krealloc_node_align(object, size, 1, gfp, node);
}

static inline STOOK_SIZED(2) void *krealloc(const void *object, size_t size, gfp_t gfp)
{
    return stook_krealloc((void *)(uintptr_t)object, size, kmem_kmalloc_flags(gfp));
}

static inline STOOK_SIZED(2, 3) void *krealloc_array(void *object, size_t n, size_t size, gfp_t gfp)
{
    return krealloc(object, stook_array_bytes(n, size), gfp);
}

static inline size_t ksize(const void *object)
{
    return stook_usable_size(object);
}

#define __ksize ksize /* before Linux 7 */

static inline size_t kmalloc_size_roundup(size_t size)
{
    return stook_kmalloc_size(size);
}

/* Any object, of kmalloc() or of a cache, by its address alone. */
static inline void kfree(const void *object)
{
    stook_free_any((void *)(uintptr_t)object);
}

/* From any context, as kmalloc_nolock(); any object. */
static inline void kfree_nolock(const void *object)
{
    kfree(object);
}

/* Any object, which is overwritten first. */
static inline void kfree_sensitive(const void *object)
{
    void *bytes = (void *)(uintptr_t)object;
    size_t size = ksize(object);

    __asm__("" : "+r"(bytes)); /* perhaps NULL, then of no size */
    if (size > 0)
        __builtin_memset(bytes, 0, size);
    __asm__ volatile("" : : "r"(bytes) : "memory"); /* the stores are not dead */
    kfree(object);
}

/* Larger requests are whole pages, contiguous to the program, in kmalloc() as well. */
#define kvmalloc kmalloc
#define kvzalloc kzalloc
#define kvmalloc_array kmalloc_array
#define kvcalloc kcalloc
#define kvcalloc_node kcalloc_node
#define kvmalloc_node kmalloc_node
#define kvzalloc_node kzalloc_node
#define kvrealloc_node_align krealloc_node_align
#define kvrealloc_node krealloc_node

static inline STOOK_MALLOC(1) void *kvmalloc_node_align(size_t size, unsigned long align, gfp_t gfp,
                                                        int node)
{
    return kmem_stook_alloc_on(size, align, kmem_kmalloc_flags(gfp) | kmem_stook_node_flags(gfp),
                               node);
}

#if STOOK_KMEM_LINUX < 0x060c00
static inline STOOK_SIZED(3) void *kvrealloc(const void *object, size_t had, size_t size, gfp_t gfp)
{
    (void)had;
    return krealloc(object, size, gfp);
}
#else
static inline STOOK_SIZED(2) void *kvrealloc(const void *object, size_t size, gfp_t gfp)
{
    return krealloc(object, size, gfp);
}
#endif

static inline void kvfree(const void *object)
{
    stook_free_any((void *)(uintptr_t)object);
}

static inline void kvfree_atomic(const void *object)
{
    kvfree(object);
}

static inline void kvfree_sensitive(const void *object, size_t size)
{
    (void)size;
    kfree_sensitive(object);
}

/* The kernel's callers with a call site of their own: here it is this one. */
#define kmalloc_track_caller(size, gfp) kmalloc(size, gfp)
#define kmalloc_node_track_caller(size, gfp, node) kmalloc_node(size, gfp, node)

/* The kernel counts call sites by alloc_hooks(); the names behind it. */
#ifndef alloc_hooks
#define alloc_hooks(call) (call)
#endif
#define kmalloc_track_caller_noprof kmalloc
#define kmalloc_node_track_caller_noprof(size, gfp, node, caller) kmalloc_node(size, gfp, node)
#define kmalloc_noprof kmalloc
#define kzalloc_noprof kzalloc
#define kmalloc_node_noprof kmalloc_node
#define kmalloc_array_noprof kmalloc_array
#define kmalloc_array_node_noprof kmalloc_array_node
#define kmalloc_nolock_noprof kmalloc_nolock
#define krealloc_noprof krealloc
#define krealloc_array_noprof krealloc_array
#define krealloc_node_align_noprof krealloc_node_align
#define kvmalloc_noprof kvmalloc
#define kvmalloc_node_noprof kvmalloc_node
#define kvmalloc_node_align_noprof kvmalloc_node_align
#define kvmalloc_array_noprof kvmalloc_array
#define kvmalloc_array_node_noprof kmalloc_array_node
#define kvcalloc_noprof kvcalloc
#define kvcalloc_node_noprof kvcalloc_node
#define kvrealloc_node_align_noprof kvrealloc_node_align

STOOK_C_END

#endif /* STOOK_KMEM_KMALLOC_H */
