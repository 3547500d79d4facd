/* SPDX-License-Identifier: MIT */
/*
 * kmem.h - the kernel's names for caches, bulk calls, prefilled sheaves, kmalloc, deferred frees and memory
 * pools.  With them, kernel code compiles in a program without changes.
 * docs/kernel-names.md has a table of all names and of the differences.
 *
 * Everything here is an inline function or a macro: no symbol of these names exists in any library.  A struct
 * kmem_cache is a struct stook_cache, a struct slab_sheaf a struct stook_sheaf; kmem_stook_cache() converts
 * the pointer.  If a program includes stook/inline.h before this, kmem_cache_alloc() and kmem_cache_free()
 * are inlined down to the CPU's sheaf.
 *
 * On failure a call returns NULL or a negative errno, as in the kernel, and sets errno as well.
 */
#ifndef STOOK_KMEM_H
#define STOOK_KMEM_H

#include <stook/kmalloc.h>
#include <stook/kmem_private.h>
#include <stook/rcu.h>
#include <stook/sheaf.h>
#include <stook/stook.h>

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- gfp_t ----------------------------------------------------------------------------------- */

typedef unsigned gfp_t;

/* Those with a meaning here. */
#define __GFP_DIRECT_RECLAIM 0x0001u /* may wait: for pools, for memory that must be had */
#define __GFP_KSWAPD_RECLAIM 0x0002u /* may take locks; with neither of the two STOOK_SIGNAL_SAFE */
#define __GFP_IO 0x0004u         /* reclaim callbacks run only with all of DIRECT_RECLAIM, … */
#define __GFP_FS 0x0008u         /* … IO and FS: they cannot tell which locks the caller holds */
#define __GFP_ZERO 0x0010u       /* STOOK_ZERO */
#define __GFP_NOFAIL 0x0020u     /* with DIRECT_RECLAIM: naps and tries until there is memory */
#define __GFP_THISNODE 0x020000u /* STOOK_THISNODE, where a node is named */
/* Those without: accepted everywhere. */
#define __GFP_HIGH 0x000100u
#define __GFP_NOWARN 0x000200u /* nothing here warns of a failed allocation */
#define __GFP_NORETRY 0x000400u
#define __GFP_RETRY_MAYFAIL 0x000800u
#define __GFP_MEMALLOC 0x001000u
#define __GFP_NOMEMALLOC 0x002000u
#define __GFP_COMP 0x004000u
#define __GFP_WRITE 0x008000u
#define __GFP_HARDWALL 0x010000u
#define __GFP_ACCOUNT 0x040000u
#define __GFP_RECLAIMABLE 0x080000u
#define __GFP_MOVABLE 0x100000u
#define __GFP_HIGHMEM 0x200000u
#define __GFP_DMA 0x400000u
#define __GFP_DMA32 0x800000u
#define __GFP_NOLOCKDEP 0x1000000u
#define __GFP_RECLAIM (__GFP_DIRECT_RECLAIM | __GFP_KSWAPD_RECLAIM)

#define GFP_KERNEL (__GFP_RECLAIM | __GFP_IO | __GFP_FS) /* STOOK_WAIT */
#define GFP_NOFS (__GFP_RECLAIM | __GFP_IO)              /* STOOK_NORECLAIM; pools wait */
#define GFP_NOIO __GFP_RECLAIM                           /* STOOK_NORECLAIM; pools wait */
#define GFP_NOWAIT (__GFP_KSWAPD_RECLAIM | __GFP_NOWARN) /* STOOK_NORECLAIM */
#define GFP_ATOMIC (__GFP_HIGH | __GFP_KSWAPD_RECLAIM)   /* STOOK_NORECLAIM */
#define GFP_KERNEL_ACCOUNT (GFP_KERNEL | __GFP_ACCOUNT)
#define GFP_USER (GFP_KERNEL | __GFP_HARDWALL)
#define GFP_HIGHUSER (GFP_USER | __GFP_HIGHMEM)
#define GFP_HIGHUSER_MOVABLE (GFP_HIGHUSER | __GFP_MOVABLE)
#define GFP_DMA __GFP_DMA
#define GFP_DMA32 __GFP_DMA32

static inline bool gfpflags_allow_blocking(gfp_t gfp)
{
    return (gfp & __GFP_DIRECT_RECLAIM) != 0;
}

static inline bool gfpflags_allow_spinning(gfp_t gfp)
{
    return (gfp & __GFP_RECLAIM) != 0;
}

/* STOOK_* of a gfp_t.  All of this folds where it is a constant. */
static inline unsigned kmem_stook_flags(gfp_t gfp)
{
    unsigned zero = gfp & __GFP_ZERO ? STOOK_ZERO : 0;

    if ((gfp & GFP_KERNEL & ~__GFP_KSWAPD_RECLAIM) == (GFP_KERNEL & ~__GFP_KSWAPD_RECLAIM))
        return zero | STOOK_WAIT;
    return zero | (gfp & __GFP_RECLAIM ? STOOK_NORECLAIM : STOOK_SIGNAL_SAFE);
}

/* Whether a call that failed is to be made once more: for want of memory, and it must not. */
static inline bool kmem_stook_again(gfp_t gfp, unsigned *tries)
{
    if ((gfp & (__GFP_NOFAIL | __GFP_DIRECT_RECLAIM)) != (__GFP_NOFAIL | __GFP_DIRECT_RECLAIM) ||
        errno != ENOMEM)
        return false;
    stook_kmem_nap(++*tries);
    return true;
}

/* ---- caches ---------------------------------------------------------------------------------- */

typedef unsigned slab_flags_t;

/* Those with a meaning here. */
#define SLAB_HWCACHE_ALIGN 0x01u   /* STOOK_CACHE_HWALIGN */
#define SLAB_TYPESAFE_BY_RCU 0x02u /* STOOK_CACHE_TYPESAFE: stook_rcu_set_ops() comes first */
#define SLAB_PANIC 0x04u /* a cache that cannot be made is reported, and abort() follows */
#define SLAB_CONSISTENCY_CHECKS 0x0100u /* STOOK_CACHE_DEBUG_CHECKS */
#define SLAB_RED_ZONE 0x0200u           /* STOOK_CACHE_DEBUG_RED_ZONE */
#define SLAB_POISON 0x0400u             /* STOOK_CACHE_DEBUG_POISON */
#define SLAB_STORE_USER 0x0800u         /* STOOK_CACHE_DEBUG_USER */
#define SLAB_TRACE 0x1000u              /* STOOK_CACHE_DEBUG_TRACE */
#define SLAB_FAILSLAB 0x2000u           /* STOOK_CACHE_DEBUG_FAIL */
/* Those without: accepted.  Caches are never merged; links are always checked. */
#define SLAB_NO_MERGE 0x0010u
#define SLAB_ACCOUNT 0x0020u
#define SLAB_RECLAIM_ACCOUNT 0x0040u
#define SLAB_TEMPORARY SLAB_RECLAIM_ACCOUNT
#define SLAB_NOLEAKTRACE 0x0080u
#define SLAB_CACHE_DMA 0x4000u
#define SLAB_CACHE_DMA32 0x8000u
#define SLAB_KASAN 0x10000u
#define SLAB_DEBUG_OBJECTS 0x20000u
#define SLAB_NO_USER_FLAGS 0x40000u
#define SLAB_MEM_SPREAD 0x80000u

struct kmem_cache;
struct slab_sheaf;
struct list_lru;

/* What is zero is the default. */
struct kmem_cache_args {
    unsigned align;
    unsigned useroffset, usersize; /* no meaning here */
    unsigned freeptr_offset;
    bool use_freeptr_offset; /* none: links lie outside of constructed objects */
    void (*ctor)(void *object);
    unsigned sheaf_capacity;
};

static inline struct stook_cache *kmem_stook_cache(struct kmem_cache *cache)
{
    return (struct stook_cache *)(void *)cache;
}

static inline struct stook_sheaf *kmem_stook_sheaf(struct slab_sheaf *sheaf)
{
    return (struct stook_sheaf *)(void *)sheaf;
}

/* The kernel's constructors have no argument: they are it. */
static inline void kmem_stook_construct(void *object, void *arg)
{
    void (*ctor)(void *);

    memcpy(&ctor, &arg, sizeof(ctor));
    ctor(object);
}

static inline struct kmem_cache *kmem_create_with_args(const char *name, size_t size,
                                                       const struct kmem_cache_args *given,
                                                       slab_flags_t flags)
{
    struct stook_cache_args args;
    struct stook_cache *cache;

    memset(&args, 0, sizeof(args));
    args.size = sizeof(args);
    if (given) {
        args.align = given->align;
        args.ctor = given->ctor ? kmem_stook_construct : NULL;
        memcpy(&args.arg, &given->ctor, sizeof(args.arg));
        args.sheaf_capacity = given->sheaf_capacity;
    }
    args.flags = (flags & SLAB_HWCACHE_ALIGN ? STOOK_CACHE_HWALIGN : 0) |
                 (flags & SLAB_TYPESAFE_BY_RCU ? STOOK_CACHE_TYPESAFE : 0) |
                 (flags & SLAB_CONSISTENCY_CHECKS ? STOOK_CACHE_DEBUG_CHECKS : 0) |
                 (flags & SLAB_RED_ZONE ? STOOK_CACHE_DEBUG_RED_ZONE : 0) |
                 (flags & SLAB_POISON ? STOOK_CACHE_DEBUG_POISON : 0) |
                 (flags & SLAB_STORE_USER ? STOOK_CACHE_DEBUG_USER : 0) |
                 (flags & SLAB_TRACE ? STOOK_CACHE_DEBUG_TRACE : 0) |
                 (flags & SLAB_FAILSLAB ? STOOK_CACHE_DEBUG_FAIL : 0);
    cache = stook_cache_create(name, size, &args);
    if (!cache && (flags & SLAB_PANIC))
        stook_kmem_panic(name, errno);
    return (struct kmem_cache *)(void *)cache;
}

static inline struct kmem_cache *kmem_create_with_ctor(const char *name, size_t size, size_t align,
                                                       slab_flags_t flags, void (*ctor)(void *))
{
    struct kmem_cache_args args;

    memset(&args, 0, sizeof(args));
    args.align = align > STOOK_ALIGN_MAX ? STOOK_ALIGN_MAX + 1 : (unsigned)align; /* E2BIG */
    args.ctor = ctor;
    return kmem_create_with_args(name, size, &args, flags);
}

/*
 * Two forms, told apart by the number of arguments:
 *
 *   kmem_cache_create(name, size, const struct kmem_cache_args *args, flags)   args may be NULL
 *   kmem_cache_create(name, size, align, flags, ctor)
 *
 * A compound literal with more than one field goes in parentheses, as for any macro.  As
 * stook_cache_create(); not from a signal handler.
 */
#ifndef __cplusplus
#define KMEM_CREATE_PICK(name, size, args, flags, ctor, form, ...) form
#define kmem_cache_create(...)                                                                     \
    KMEM_CREATE_PICK(__VA_ARGS__, kmem_create_with_ctor, kmem_create_with_args, , )(__VA_ARGS__)
#endif

static inline struct kmem_cache *kmem_cache_create_usercopy(const char *name, size_t size,
                                                            size_t align, slab_flags_t flags,
                                                            size_t useroffset, size_t usersize,
                                                            void (*ctor)(void *))
{
    (void)useroffset;
    (void)usersize;
    return kmem_create_with_ctor(name, size, align, flags, ctor);
}

/* A cache of struct `type`, with its name, size and alignment; of which `field` may go to users. */
#define KMEM_CACHE(type, flags)                                                                    \
    kmem_create_with_ctor(#type, sizeof(struct type), __alignof__(struct type), flags, NULL)
#define KMEM_CACHE_USERCOPY(type, flags, field)                                                    \
    kmem_cache_create_usercopy(#type, sizeof(struct type), __alignof__(struct type), flags,        \
                               offsetof(struct type, field), sizeof(((struct type *)0)->field),    \
                               NULL)

/* While objects are out the cache stays, and a report says so.  Waits for deferred frees. */
static inline void kmem_cache_destroy(struct kmem_cache *cache)
{
    if (cache)
        (void)stook_cache_destroy(kmem_stook_cache(cache));
}

/* 0 if no slab is left, else 1. */
static inline int kmem_cache_shrink(struct kmem_cache *cache)
{
    return stook_kmem_shrink(kmem_stook_cache(cache));
}

static inline unsigned kmem_cache_size(struct kmem_cache *cache)
{
    return (unsigned)stook_cache_object_size(kmem_stook_cache(cache));
}

/* ---- objects --------------------------------------------------------------------------------- */

static inline void *kmem_alloc_nofail(struct kmem_cache *cache, gfp_t gfp)
{
    unsigned tries = 0;
    void *object;

    do
        object = (stook_alloc)(kmem_stook_cache(cache), kmem_stook_flags(gfp));
    while (!object && kmem_stook_again(gfp, &tries));
    return object;
}

/* __GFP_ZERO with a constructor is refused: NULL with EINVAL. */
static inline void *kmem_cache_alloc(struct kmem_cache *cache, gfp_t gfp)
{
    if (gfp & __GFP_NOFAIL)
        return kmem_alloc_nofail(cache, gfp);
#ifdef STOOK_INLINE_H
    return (stook_alloc_inline)(kmem_stook_cache(cache), kmem_stook_flags(gfp));
#else
    return (stook_alloc)(kmem_stook_cache(cache), kmem_stook_flags(gfp));
#endif
}

static inline void *kmem_cache_zalloc(struct kmem_cache *cache, gfp_t gfp)
{
    return kmem_cache_alloc(cache, gfp | __GFP_ZERO);
}

/* Nothing is accounted to the list. */
static inline void *kmem_cache_alloc_lru(struct kmem_cache *cache, struct list_lru *lru, gfp_t gfp)
{
    (void)lru;
    return kmem_cache_alloc(cache, gfp);
}

#ifndef NUMA_NO_NODE
#define NUMA_NO_NODE (-1)
#endif

static inline unsigned kmem_stook_node_flags(gfp_t gfp)
{
    return gfp & __GFP_THISNODE ? STOOK_THISNODE : 0;
}

/* The node's memory, else the nearest node's, unless __GFP_THISNODE is given. */
static inline void *kmem_cache_alloc_node(struct kmem_cache *cache, gfp_t gfp, int node)
{
    unsigned flags = kmem_stook_flags(gfp) | kmem_stook_node_flags(gfp), tries = 0;
    void *object;

    if (node == NUMA_NO_NODE)
        return kmem_cache_alloc(cache, gfp);
    do
        object = stook_alloc_node(kmem_stook_cache(cache), flags, node);
    while (!object && !(gfp & __GFP_THISNODE) && kmem_stook_again(gfp, &tries));
    return object;
}

static inline void kmem_cache_free(struct kmem_cache *cache, void *object)
{
#ifdef STOOK_INLINE_H
    stook_free_inline(kmem_stook_cache(cache), object);
#else
    stook_free(kmem_stook_cache(cache), object);
#endif
}

/* All of them or none; of none: false. */
static inline bool kmem_cache_alloc_bulk(struct kmem_cache *cache, gfp_t gfp, size_t n,
                                         void **objects)
{
    unsigned tries = 0;
    int result;

    if (n == 0)
        return false;
    do
        result = (stook_alloc_bulk)(kmem_stook_cache(cache), kmem_stook_flags(gfp), n, objects);
    while (result != 0 && kmem_stook_again(gfp, &tries));
    return result == 0;
}

/* Objects of any caches, and of kmalloc(). */
static inline void kfree_bulk(size_t n, void **objects)
{
    for (size_t i = 0; i < n; i++)
        stook_free_any(objects[i]);
}

/* The cache may be NULL: then that is kfree_bulk(). */
static inline void kmem_cache_free_bulk(struct kmem_cache *cache, size_t n, void **objects)
{
    if (cache)
        stook_free_bulk(kmem_stook_cache(cache), n, objects);
    else
        kfree_bulk(n, objects);
}

/* ---- prefilled sheaves ----------------------------------------------------------------------- */

/* At least `size` objects; of 0 NULL. */
static inline struct slab_sheaf *kmem_cache_prefill_sheaf(struct kmem_cache *cache, gfp_t gfp,
                                                          unsigned size)
{
    unsigned flags = kmem_stook_flags(gfp), tries = 0;
    struct stook_sheaf *sheaf;

    do
        sheaf = stook_sheaf_prefill(kmem_stook_cache(cache), flags, size);
    while (!sheaf && kmem_stook_again(gfp, &tries));
    return (struct slab_sheaf *)(void *)sheaf;
}

/* 0 or a negative errno; *sheaf may become another one. */
static inline int kmem_cache_refill_sheaf(struct kmem_cache *cache, gfp_t gfp,
                                          struct slab_sheaf **sheaf, unsigned size)
{
    unsigned flags = kmem_stook_flags(gfp), tries = 0;
    struct stook_sheaf *own;
    int result;

    if (!sheaf || !*sheaf)
        return -EINVAL;
    own = kmem_stook_sheaf(*sheaf);
    do
        result = stook_sheaf_refill(kmem_stook_cache(cache), flags, &own, size);
    while (result != 0 && kmem_stook_again(gfp, &tries));
    *sheaf = (struct slab_sheaf *)(void *)own;
    return result == 0 ? 0 : -errno;
}

static inline void kmem_cache_return_sheaf(struct kmem_cache *cache, gfp_t gfp,
                                           struct slab_sheaf *sheaf)
{
    (void)gfp;
    stook_sheaf_return(kmem_stook_cache(cache), kmem_stook_sheaf(sheaf));
}

/* Never fails while the sheaf holds an object. */
static inline void *kmem_cache_alloc_from_sheaf(struct kmem_cache *cache, gfp_t gfp,
                                                struct slab_sheaf *sheaf)
{
    return (stook_sheaf_alloc)(kmem_stook_cache(cache), kmem_stook_flags(gfp),
                               kmem_stook_sheaf(sheaf));
}

static inline unsigned kmem_cache_sheaf_size(struct slab_sheaf *sheaf)
{
    return stook_sheaf_size(kmem_stook_sheaf(sheaf));
}

/* ---- kmalloc --------------------------------------------------------------------------------- */

#define KMALLOC_MIN_SIZE 8
#define KMALLOC_MAX_CACHE_SIZE 8192UL
#define KMALLOC_MAX_SIZE                                                                           \
    (4UL << 20) /* what the kernel has at most; here larger ones are fine too */
#define ARCH_KMALLOC_MINALIGN 8
#define ZERO_SIZE_PTR STOOK_KMALLOC_NONE /* kmalloc(0) */
#define ZERO_OR_NULL_PTR(object) ((uintptr_t)(object) <= (uintptr_t)ZERO_SIZE_PTR)

static inline unsigned kmem_kmalloc_flags(gfp_t gfp)
{
    bool must =
        (gfp & (__GFP_NOFAIL | __GFP_DIRECT_RECLAIM)) == (__GFP_NOFAIL | __GFP_DIRECT_RECLAIM);

    return kmem_stook_flags(gfp) | (must ? STOOK_NOFAIL : 0);
}

/* A product that overflows is a size that cannot be had. */
static inline size_t kmem_product(size_t n, size_t size)
{
    size_t product;

    return __builtin_mul_overflow(n, size, &product) ? SIZE_MAX : product;
}

static inline void *kmalloc(size_t size, gfp_t gfp)
{
    return (stook_kmalloc)(size, kmem_kmalloc_flags(gfp));
}

static inline void *kzalloc(size_t size, gfp_t gfp)
{
    return kmalloc(size, gfp | __GFP_ZERO);
}

static inline void *kmalloc_array(size_t n, size_t size, gfp_t gfp)
{
    return stook_kmalloc_array(n, size, kmem_kmalloc_flags(gfp));
}

static inline void *kcalloc(size_t n, size_t size, gfp_t gfp)
{
    return stook_kmalloc_array(n, size, kmem_kmalloc_flags(gfp | __GFP_ZERO));
}

static inline void *kmalloc_node(size_t size, gfp_t gfp, int node)
{
    return stook_kmalloc_node(size, kmem_kmalloc_flags(gfp) | kmem_stook_node_flags(gfp), node);
}

static inline void *kzalloc_node(size_t size, gfp_t gfp, int node)
{
    return kmalloc_node(size, gfp | __GFP_ZERO, node);
}

static inline void *kmalloc_array_node(size_t n, size_t size, gfp_t gfp, int node)
{
    return kmalloc_node(kmem_product(n, size), gfp, node);
}

static inline void *kcalloc_node(size_t n, size_t size, gfp_t gfp, int node)
{
    return kmalloc_node(kmem_product(n, size), gfp | __GFP_ZERO, node);
}

/* As krealloc(9): size 0 frees and gives ZERO_SIZE_PTR; with __GFP_ZERO in all calls new bytes are 0. */
static inline void *krealloc(const void *object, size_t size, gfp_t gfp)
{
    return stook_krealloc((void *)(uintptr_t)object, size, kmem_kmalloc_flags(gfp));
}

static inline void *krealloc_array(void *object, size_t n, size_t size, gfp_t gfp)
{
    return stook_krealloc_array(object, n, size, kmem_kmalloc_flags(gfp));
}

static inline size_t ksize(const void *object)
{
    return stook_usable_size(object);
}

static inline size_t kmalloc_size_roundup(size_t size)
{
    return stook_kmalloc_size(size);
}

/* Any object, of kmalloc() or of a cache, by its address alone. */
static inline void kfree(const void *object)
{
    stook_free_any((void *)(uintptr_t)object);
}

static inline void kfree_sensitive(const void *object)
{
    stook_kmem_free_sensitive(object);
}

/* Larger requests are whole pages, contiguous to the program, in kmalloc() as well. */
static inline void *kvmalloc(size_t size, gfp_t gfp)
{
    return kmalloc(size, gfp);
}

static inline void *kvzalloc(size_t size, gfp_t gfp)
{
    return kzalloc(size, gfp);
}

static inline void *kvmalloc_array(size_t n, size_t size, gfp_t gfp)
{
    return kmalloc_array(n, size, gfp);
}

static inline void *kvcalloc(size_t n, size_t size, gfp_t gfp)
{
    return kcalloc(n, size, gfp);
}

static inline void *kvmalloc_node(size_t size, gfp_t gfp, int node)
{
    return kmalloc_node(size, gfp, node);
}

static inline void *kvzalloc_node(size_t size, gfp_t gfp, int node)
{
    return kzalloc_node(size, gfp, node);
}

static inline void *kvrealloc(const void *object, size_t size, gfp_t gfp)
{
    return krealloc(object, size, gfp);
}

static inline void kvfree(const void *object)
{
    stook_free_any((void *)(uintptr_t)object);
}

static inline void kvfree_sensitive(const void *object, size_t size)
{
    (void)size;
    stook_kmem_free_sensitive(object);
}

/* ---- copies ---------------------------------------------------------------------------------- */

static inline void *kmemdup(const void *from, size_t size, gfp_t gfp)
{
    void *copy = kmalloc(size, gfp & ~__GFP_ZERO);

    if (copy && size > 0 && size <= PTRDIFF_MAX) /* as the compiler does not know */
        memcpy(copy, from, size);
    return copy;
}

static inline void *kmemdup_array(const void *from, size_t n, size_t size, gfp_t gfp)
{
    return kmemdup(from, kmem_product(n, size), gfp);
}

static inline void *kvmemdup(const void *from, size_t size, gfp_t gfp)
{
    return kmemdup(from, size, gfp);
}

/* With a NUL behind. */
static inline char *kmemdup_nul(const char *from, size_t size, gfp_t gfp)
{
    char *copy = from && size < PTRDIFF_MAX ? (char *)kmalloc(size + 1, gfp & ~__GFP_ZERO) : NULL;

    if (copy) {
        memcpy(copy, from, size);
        copy[size] = '\0';
    }
    return copy;
}

static inline char *kstrdup(const char *from, gfp_t gfp)
{
    return from ? kmemdup_nul(from, strlen(from), gfp) : NULL;
}

static inline char *kstrndup(const char *from, size_t most, gfp_t gfp)
{
    const char *end = from ? (const char *)memchr(from, 0, most) : NULL;

    return kmemdup_nul(from, end ? (size_t)(end - from) : most, gfp);
}

/* Always a copy: nothing here knows what is constant. */
static inline const char *kstrdup_const(const char *from, gfp_t gfp)
{
    return kstrdup(from, gfp);
}

static inline void kfree_const(const void *object)
{
    stook_free_any((void *)(uintptr_t)object);
}

static inline __attribute__((format(printf, 2, 0))) char *kvasprintf(gfp_t gfp, const char *format,
                                                                     va_list list)
{
    va_list again;
    char *text = NULL;
    int n;

    va_copy(again, list);
    n = vsnprintf(NULL, 0, format, list);
    if (n >= 0)
        text = (char *)kmalloc((size_t)n + 1, gfp);
    if (text)
        (void)vsnprintf(text, (size_t)n + 1, format, again);
    va_end(again);
    return text;
}

static inline __attribute__((format(printf, 2, 3))) char *kasprintf(gfp_t gfp, const char *format,
                                                                    ...)
{
    va_list list;
    char *text;

    va_start(list, format);
    text = kvasprintf(gfp, format, list);
    va_end(list);
    return text;
}

/* ---- deferred frees -------------------------------------------------------------------------- */

/*
 * For objects that are freed by kfree_rcu(); liburcu's, with its call_rcu(), where <urcu.h> is
 * included first or STOOK_KMEM_NO_RCU_HEAD is defined.  Stook leaves it alone.
 */
#if !defined(_URCU_CALL_RCU_H) && !defined(STOOK_KMEM_NO_RCU_HEAD)
struct rcu_head {
    struct rcu_head *next;
    void (*func)(struct rcu_head *head);
};
#endif

/*
 * kfree() of `object` when its readers are gone: stook_free_any_rcu().  `field` is its struct rcu_head,
 * which only the compiler looks at.  NULL is accepted.
 */
#define kvfree_rcu(object, field)                                                                  \
    do {                                                                                           \
        __typeof__(object) kmem_object_ = (object);                                                \
        (void)sizeof((struct rcu_head *)0 == &kmem_object_->field);                                \
        stook_free_any_rcu(kmem_object_);                                                          \
    } while (0)
#define kfree_rcu(object, field) kvfree_rcu(object, field)
/* Without a field.  They wait only where there is no memory at all. */
#define kvfree_rcu_mightsleep(object) stook_free_any_rcu((void *)(uintptr_t)(object))
#define kfree_rcu_mightsleep(object) stook_free_any_rcu((void *)(uintptr_t)(object))

static inline void kvfree_rcu_barrier(void)
{
    stook_rcu_barrier();
}

/* ---- memory pools ---------------------------------------------------------------------------- */

typedef void *(mempool_alloc_t)(gfp_t gfp, void *pool_data);
typedef void(mempool_free_t)(void *element, void *pool_data);

/* A reserve of min_nr elements over any pair of functions.  The first four are for reading. */
typedef struct mempool {
    int min_nr;
    void *pool_data;
    mempool_alloc_t *alloc;
    mempool_free_t *free;
    struct stook_kmem_bag *bag;
} mempool_t;

static inline bool mempool_initialized(const mempool_t *pool)
{
    return pool->bag != NULL;
}

/* Whether the reserve is full. */
static inline bool mempool_is_saturated(const mempool_t *pool)
{
    return stook_kmem_bag_count(pool->bag) >= stook_kmem_bag_limit(pool->bag);
}

/* What it keeps goes back.  A pool of zeros, or one that has ended already, is fine. */
static inline void mempool_exit(mempool_t *pool)
{
    void *element;

    if (!pool->bag)
        return;
    while ((element = stook_kmem_bag_take(pool->bag)) != NULL)
        pool->free(element, pool->pool_data);
    stook_kmem_bag_destroy(pool->bag);
    pool->bag = NULL;
}

/* Elements into the reserve until it is full; false without memory. */
static inline bool kmem_mempool_fill(mempool_t *pool, gfp_t gfp)
{
    while (!mempool_is_saturated(pool)) {
        void *element = pool->alloc(gfp, pool->pool_data);
        if (!element)
            return false;
        if (!stook_kmem_bag_put(pool->bag, element)) {
            pool->free(element, pool->pool_data);
            break;
        }
    }
    return true;
}

/* 0, -ENOMEM or -EINVAL; nothing is kept then. */
static inline int mempool_init(mempool_t *pool, int min_nr, mempool_alloc_t *alloc_fn,
                               mempool_free_t *free_fn, void *pool_data)
{
    if (min_nr < 0)
        return -EINVAL;
    pool->min_nr = min_nr;
    pool->pool_data = pool_data;
    pool->alloc = alloc_fn;
    pool->free = free_fn;
    pool->bag = stook_kmem_bag_create((unsigned)min_nr);
    if (pool->bag && kmem_mempool_fill(pool, GFP_KERNEL))
        return 0;
    mempool_exit(pool);
    return -ENOMEM;
}

static inline mempool_t *mempool_create(int min_nr, mempool_alloc_t *alloc_fn,
                                        mempool_free_t *free_fn, void *pool_data)
{
    mempool_t *pool = (mempool_t *)kzalloc(sizeof(*pool), GFP_KERNEL);

    if (!pool || mempool_init(pool, min_nr, alloc_fn, free_fn, pool_data) == 0)
        return pool;
    kfree(pool);
    return NULL;
}

static inline mempool_t *mempool_create_node(int min_nr, mempool_alloc_t *alloc_fn,
                                             mempool_free_t *free_fn, void *pool_data, gfp_t gfp,
                                             int node)
{
    (void)gfp;
    (void)node;
    return mempool_create(min_nr, alloc_fn, free_fn, pool_data);
}

static inline void mempool_destroy(mempool_t *pool)
{
    if (!pool)
        return;
    mempool_exit(pool);
    kfree(pool);
}

/*
 * Allocates an element: first from the pool's function without waiting, then from the reserve.  With
 * __GFP_DIRECT_RECLAIM it then calls the function with all of gfp, and waits for a freed element, until one
 * of both succeeds: so it never fails.  __GFP_ZERO fails with EINVAL, since the reserve's elements are not
 * zeros.
 */
static inline void *mempool_alloc(mempool_t *pool, gfp_t gfp)
{
    gfp_t first = (gfp & ~(__GFP_DIRECT_RECLAIM | __GFP_IO | __GFP_NOFAIL)) | __GFP_NOWARN |
                  __GFP_NORETRY | __GFP_NOMEMALLOC;
    int saved = errno;
    void *element;

    if (gfp & __GFP_ZERO) {
        errno = EINVAL;
        return NULL;
    }
    element = pool->alloc(first, pool->pool_data);
    if (!element)
        element = stook_kmem_bag_take(pool->bag);
    gfp &= ~__GFP_NOFAIL; /* it waits for the reserve, not only for memory */
    while (!element && (gfp & __GFP_DIRECT_RECLAIM)) {
        element = pool->alloc(gfp, pool->pool_data);
        if (!element)
            element = stook_kmem_bag_wait(pool->bag);
    }
    errno = element ? saved : ENOMEM;
    return element;
}

/* From the reserve alone, or NULL. */
static inline void *mempool_alloc_preallocated(mempool_t *pool)
{
    return stook_kmem_bag_take(pool->bag);
}

/* To the reserve while that is not full; wakes one who waits.  NULL is accepted. */
static inline void mempool_free(void *element, mempool_t *pool)
{
    if (element && !stook_kmem_bag_put(pool->bag, element))
        pool->free(element, pool->pool_data);
}

/* Beside any other call.  0, -ENOMEM or -EINVAL; what cannot be filled now is by frees. */
static inline int mempool_resize(mempool_t *pool, int min_nr)
{
    void *element;

    if (min_nr < 0)
        return -EINVAL;
    if (stook_kmem_bag_resize(pool->bag, (unsigned)min_nr) != 0)
        return -ENOMEM;
    pool->min_nr = min_nr;
    while ((element = stook_kmem_bag_spill(pool->bag)) != NULL)
        pool->free(element, pool->pool_data);
    (void)kmem_mempool_fill(pool, GFP_KERNEL);
    return 0;
}

/* Elements of a cache without constructor (pool_data), or of kmalloc() (pool_data is their size). */
static inline void *mempool_alloc_slab(gfp_t gfp, void *pool_data)
{
    return kmem_cache_alloc((struct kmem_cache *)pool_data, gfp);
}

static inline void mempool_free_slab(void *element, void *pool_data)
{
    kmem_cache_free((struct kmem_cache *)pool_data, element);
}

static inline void *mempool_kmalloc(gfp_t gfp, void *pool_data)
{
    return kmalloc((size_t)(uintptr_t)pool_data, gfp);
}

static inline void mempool_kfree(void *element, void *pool_data)
{
    (void)pool_data;
    kfree(element);
}

static inline mempool_t *mempool_create_slab_pool(int min_nr, struct kmem_cache *cache)
{
    return mempool_create(min_nr, mempool_alloc_slab, mempool_free_slab, cache);
}

static inline int mempool_init_slab_pool(mempool_t *pool, int min_nr, struct kmem_cache *cache)
{
    return mempool_init(pool, min_nr, mempool_alloc_slab, mempool_free_slab, cache);
}

static inline mempool_t *mempool_create_kmalloc_pool(int min_nr, size_t size)
{
    return mempool_create(min_nr, mempool_kmalloc, mempool_kfree, (void *)(uintptr_t)size);
}

static inline int mempool_init_kmalloc_pool(mempool_t *pool, int min_nr, size_t size)
{
    return mempool_init(pool, min_nr, mempool_kmalloc, mempool_kfree, (void *)(uintptr_t)size);
}

#ifdef __cplusplus
}

static inline struct kmem_cache *kmem_cache_create(const char *name, size_t size,
                                                   const struct kmem_cache_args *args,
                                                   slab_flags_t flags)
{
    return kmem_create_with_args(name, size, args, flags);
}

static inline struct kmem_cache *kmem_cache_create(const char *name, size_t size, size_t align,
                                                   slab_flags_t flags, void (*ctor)(void *))
{
    return kmem_create_with_ctor(name, size, align, flags, ctor);
}
#endif

#endif /* STOOK_KMEM_H */
