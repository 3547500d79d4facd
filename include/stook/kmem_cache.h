/* SPDX-License-Identifier: MIT */
/* kmem_cache.h - stook/kmem.h's caches, their objects, and prefilled sheaves. */
#ifndef STOOK_KMEM_CACHE_H
#define STOOK_KMEM_CACHE_H

#include <stook/kmem_gfp.h>
#include <stook/reserve.h>
#include <stook/stat.h>
#include <stook/stook.h>

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

STOOK_C_BEGIN

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
#define SLAB_ACCOUNT 0x0020u      /* STOOK_CACHE_ACCOUNT: all are charged to the thread's group */
#define SLAB_NO_SHEAVES 0x200000u /* STOOK_CACHE_NOSHEAF */
/* Those without: accepted.  Caches are never merged; links are always checked. */
#define SLAB_NO_MERGE 0x0010u
#define SLAB_RECLAIM_ACCOUNT 0x0040u
#define SLAB_TEMPORARY SLAB_RECLAIM_ACCOUNT
#define SLAB_NOLEAKTRACE 0x0080u
#define SLAB_CACHE_DMA 0x4000u
#define SLAB_CACHE_DMA32 0x8000u
#define SLAB_KASAN 0x10000u
#define SLAB_DEBUG_OBJECTS 0x20000u
#define SLAB_NO_USER_FLAGS 0x40000u
#define SLAB_MEM_SPREAD 0x80000u
#define SLAB_SKIP_KFENCE 0x100000u
#define SLAB_KMALLOC 0u
#define SLAB_NO_OBJ_EXT 0u
#define SLAB_OBJ_EXT_IN_OBJ 0u
#define SLAB_MAY_ACCOUNT 0u

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

#ifdef STOOK_KMEM_NO_ACCOUNT
#define KMEM_CACHE_ACCOUNT 0u
#else
#define KMEM_CACHE_ACCOUNT STOOK_CACHE_ACCOUNT
#endif

static inline unsigned kmem_stook_cache_flags(slab_flags_t flags)
{
    return (flags & SLAB_HWCACHE_ALIGN ? STOOK_CACHE_HWALIGN : 0) |
           (flags & SLAB_TYPESAFE_BY_RCU ? STOOK_CACHE_TYPESAFE : 0) |
           (flags & SLAB_CONSISTENCY_CHECKS ? STOOK_CACHE_DEBUG_CHECKS : 0) |
           (flags & SLAB_RED_ZONE ? STOOK_CACHE_DEBUG_RED_ZONE : 0) |
           (flags & SLAB_POISON ? STOOK_CACHE_DEBUG_POISON : 0) |
           (flags & SLAB_STORE_USER ? STOOK_CACHE_DEBUG_USER : 0) |
           (flags & SLAB_TRACE ? STOOK_CACHE_DEBUG_TRACE : 0) |
           (flags & SLAB_FAILSLAB ? STOOK_CACHE_DEBUG_FAIL : 0) |
           (flags & SLAB_NO_SHEAVES ? STOOK_CACHE_NOSHEAF : 0) |
           (flags & SLAB_ACCOUNT ? KMEM_CACHE_ACCOUNT : 0);
}

/* SLAB_PANIC: reports that the cache cannot be made, and aborts. */
static inline __attribute__((noreturn)) void kmem_stook_panic(const char *name, int error)
{
    const char *why = error == EINVAL    ? "wrong arguments"
                      : error == E2BIG   ? "beyond a limit"
                      : error == ENFILE  ? "too many caches"
                      : error == ENOTSUP ? "no RCU was set"
                                         : "no memory";

    fprintf(stderr,
            "stook: kmem_cache_create: cache %s cannot be made (%s), and SLAB_PANIC says that it "
            "must\n",
            name ? name : "(no name)", why);
    __builtin_abort();
}

static inline STOOK_WARN_UNUSED struct kmem_cache *kmem_create_with_args(
    const char *name, size_t size, const struct kmem_cache_args *given, slab_flags_t flags)
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
    args.flags = kmem_stook_cache_flags(flags);
    cache = stook_cache_create(name, size, &args);
    if (!cache && (flags & SLAB_PANIC))
        kmem_stook_panic(name, errno);
    return (struct kmem_cache *)(void *)cache;
}

static inline STOOK_WARN_UNUSED struct kmem_cache *kmem_create_with_ctor(const char *name,
                                                                         size_t size, size_t align,
                                                                         slab_flags_t flags,
                                                                         void (*ctor)(void *))
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

static inline STOOK_WARN_UNUSED struct kmem_cache *kmem_cache_create_usercopy(
    const char *name, size_t size, size_t align, slab_flags_t flags, size_t useroffset,
    size_t usersize, void (*ctor)(void *))
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
                               offsetof(struct type, field),                                       \
                               sizeof(STOOK_CAST(struct type *, 0)->field), NULL)

/* While objects are out the cache stays, and a report says so.  Waits for deferred frees. */
static inline void kmem_cache_destroy(struct kmem_cache *cache)
{
    if (cache)
        (void)stook_cache_destroy(kmem_stook_cache(cache));
}

/* 0 if no slab is left, else 1. */
static inline int kmem_cache_shrink(struct kmem_cache *cache)
{
    struct stook_cache_usage usage;

    memset(&usage, 0, sizeof(usage));
    usage.size = sizeof(usage);
    (void)stook_cache_shrink(kmem_stook_cache(cache));
    (void)stook_cache_usage(kmem_stook_cache(cache), &usage);
    return usage.slabs > 0;
}

/* An object is charged where it is allocated, or never: see kmem_cache_alloc(). */
static inline bool kmem_cache_charge(void *object, gfp_t gfp)
{
    (void)object;
    (void)gfp;
    return true;
}

/* Says on standard error whose an object is; false: no cache's. */
static inline bool kmem_dump_obj(const void *object)
{
    struct stook_cache *cache = stook_cache_of(object);

    if (cache)
        fprintf(stderr, " slab %s pointer %p size %zu\n", stook_cache_name(cache), object,
                stook_cache_object_size(cache));
    return cache != NULL;
}

/* There are caches from the first call on. */
static inline bool slab_is_available(void)
{
    return true;
}

static inline unsigned kmem_cache_size(struct kmem_cache *cache)
{
    return (unsigned)stook_cache_object_size(kmem_stook_cache(cache));
}

/* ---- objects --------------------------------------------------------------------------------- */

static inline STOOK_WARN_UNUSED void *kmem_alloc_nofail(struct kmem_cache *cache, gfp_t gfp)
{
    struct kmem_tries tries = KMEM_TRIES;
    void *object;

    do
        object = (stook_alloc)(kmem_stook_cache(cache), kmem_stook_flags(gfp));
    while (!object && kmem_stook_again(gfp, &tries));
    kmem_stook_done(&tries);
    return object;
}

/* __GFP_ZERO with a constructor is refused: NULL with EINVAL.  __GFP_ACCOUNT has no effect: a cache with SLAB_ACCOUNT
 * charges all its objects, another one has no place for owners. */
static inline STOOK_WARN_UNUSED void *kmem_cache_alloc(struct kmem_cache *cache, gfp_t gfp)
{
    if (gfp & __GFP_NOFAIL)
        return kmem_alloc_nofail(cache, gfp);
#ifdef STOOK_INLINE_H
    return (stook_alloc_inline)(kmem_stook_cache(cache), kmem_stook_flags(gfp));
#else
    return (stook_alloc)(kmem_stook_cache(cache), kmem_stook_flags(gfp));
#endif
}

static inline STOOK_WARN_UNUSED void *kmem_cache_zalloc(struct kmem_cache *cache, gfp_t gfp)
{
    return kmem_cache_alloc(cache, gfp | __GFP_ZERO);
}

/* Nothing is accounted to the list. */
static inline STOOK_WARN_UNUSED void *kmem_cache_alloc_lru(struct kmem_cache *cache,
                                                           struct list_lru *lru, gfp_t gfp)
{
    (void)lru;
    return kmem_cache_alloc(cache, gfp);
}

#ifndef NUMA_NO_NODE
#define NUMA_NO_NODE (-1)
#endif

/* The node's memory, else the nearest node's, unless __GFP_THISNODE is given. */
static inline STOOK_WARN_UNUSED void *kmem_cache_alloc_node(struct kmem_cache *cache, gfp_t gfp,
                                                            int node)
{
    const struct stook_alloc_args args = {
        sizeof(struct stook_alloc_args), NULL, NULL, NULL, NULL, node, 0};
    unsigned flags = kmem_stook_flags(gfp) | kmem_stook_node_flags(gfp) | STOOK_NODE;
    struct kmem_tries tries = KMEM_TRIES;
    void *object;

    if (node == NUMA_NO_NODE)
        return kmem_cache_alloc(cache, gfp);
    do
        object = stook_alloc_with(kmem_stook_cache(cache), flags, &args);
    while (!object && !(flags & STOOK_THISNODE) && kmem_stook_again(gfp, &tries));
    kmem_stook_done(&tries);
    if (!object && !(flags & STOOK_THISNODE) && errno == EINVAL) /* no such node */
        return kmem_cache_alloc(cache, gfp);
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

/* Before Linux 7.2 the number of objects. */
#if STOOK_KMEM_LINUX < 0x070200
typedef int kmem_bulk_t;
#else
typedef bool kmem_bulk_t;
#endif

/* All of them or none; of none: false. */
static inline STOOK_WARN_UNUSED kmem_bulk_t kmem_cache_alloc_bulk(struct kmem_cache *cache,
                                                                  gfp_t gfp, size_t n,
                                                                  void **objects)
{
    struct kmem_tries tries = KMEM_TRIES;
    int result;

    if (n == 0)
        return 0;
    do
        result = (stook_alloc_bulk)(kmem_stook_cache(cache), kmem_stook_flags(gfp), n, objects);
    while (result != 0 && kmem_stook_again(gfp, &tries));
    kmem_stook_done(&tries);
    return result == 0 ? (kmem_bulk_t)n : 0;
}

/* Objects of any caches, and of kmalloc().  The report of a bad free names an n that no array can have. */
static inline void kfree_bulk(size_t n, void **objects)
{
    if (n > SIZE_MAX >> 11) {
        stook_free_any((void *)n);
        return;
    }
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
static inline STOOK_WARN_UNUSED struct slab_sheaf *kmem_cache_prefill_sheaf(
    struct kmem_cache *cache, gfp_t gfp, unsigned size)
{
    unsigned flags = kmem_stook_flags(gfp);
    struct kmem_tries tries = KMEM_TRIES;
    struct stook_sheaf *sheaf;

    do
        sheaf = stook_sheaf_prefill(kmem_stook_cache(cache), flags, size);
    while (!sheaf && kmem_stook_again(gfp, &tries));
    kmem_stook_done(&tries);
    return (struct slab_sheaf *)(void *)sheaf;
}

/* 0 or a negative errno; *sheaf may become another one. */
static inline int kmem_cache_refill_sheaf(struct kmem_cache *cache, gfp_t gfp,
                                          struct slab_sheaf **sheaf, unsigned size)
{
    unsigned flags = kmem_stook_flags(gfp);
    struct kmem_tries tries = KMEM_TRIES;
    struct stook_sheaf *own;
    int result;

    if (!sheaf || !*sheaf)
        return -EINVAL;
    own = kmem_stook_sheaf(*sheaf);
    do
        result = stook_sheaf_refill(kmem_stook_cache(cache), flags, &own, size);
    while (result != 0 && kmem_stook_again(gfp, &tries));
    kmem_stook_done(&tries);
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
static inline STOOK_WARN_UNUSED void *kmem_cache_alloc_from_sheaf(struct kmem_cache *cache,
                                                                  gfp_t gfp,
                                                                  struct slab_sheaf *sheaf)
{
    return (stook_sheaf_alloc)(kmem_stook_cache(cache), kmem_stook_flags(gfp),
                               kmem_stook_sheaf(sheaf));
}

static inline unsigned kmem_cache_sheaf_size(struct slab_sheaf *sheaf)
{
    return stook_sheaf_size(kmem_stook_sheaf(sheaf));
}

/* The names behind the kernel's counting of call sites (alloc_hooks()). */
#define kmem_cache_alloc_noprof kmem_cache_alloc
#define kmem_cache_alloc_lru_noprof kmem_cache_alloc_lru
#define kmem_cache_alloc_node_noprof kmem_cache_alloc_node
#define kmem_cache_alloc_bulk_noprof kmem_cache_alloc_bulk
#define kmem_cache_alloc_from_sheaf_noprof kmem_cache_alloc_from_sheaf

STOOK_C_END

#ifdef __cplusplus
static inline STOOK_WARN_UNUSED struct kmem_cache *kmem_cache_create(
    const char *name, size_t size, const struct kmem_cache_args *args, slab_flags_t flags)
{
    return kmem_create_with_args(name, size, args, flags);
}

static inline STOOK_WARN_UNUSED struct kmem_cache *kmem_cache_create(const char *name, size_t size,
                                                                     size_t align,
                                                                     slab_flags_t flags,
                                                                     void (*ctor)(void *))
{
    return kmem_create_with_ctor(name, size, align, flags, ctor);
}
#endif

#endif /* STOOK_KMEM_CACHE_H */
