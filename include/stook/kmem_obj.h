/* SPDX-License-Identifier: MIT */
/*
 * kmem_obj.h - stook/kmem.h's allocations by type (kmalloc_obj() and its family), a program's own sets of caches of
 * kmalloc's sizes (kmem_buckets), and pointers that are freed at the end of their scope (__free(kfree)).
 */
#ifndef STOOK_KMEM_OBJ_H
#define STOOK_KMEM_OBJ_H

#include <stook/kmem_cache.h>
#include <stook/kmem_kmalloc.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

STOOK_C_BEGIN

/* ---- by type --------------------------------------------------------------------------------- */

/*
 * Memory for a type, which may be given by an expression of it: kzalloc_obj(*point), kzalloc_obj(struct point).
 *
 *   k[v][mz]alloc_obj(TYPE [, gfp])                  TYPE *, one
 *   k[v][mz]alloc_objs(TYPE, n [, gfp])              TYPE *, n of them in a row
 *   k[v][mz]alloc_flex(TYPE, MEMBER, n [, gfp])      TYPE *, whose last member, an array, has n elements
 *
 * gfp is GFP_KERNEL where it is left out.  NULL without memory, and for a size that overflows.  Arguments are
 * evaluated once.  If the compiler knows the array's counter (counted_by), _flex() sets it.
 */
#define kmem_gfp_second_(first, second, ...) second
#define kmem_gfp_or_kernel_(...) kmem_gfp_second_(__VA_ARGS__, GFP_KERNEL, )

#define kmem_objs_(call, type, n, gfp)                                                             \
    STOOK_CAST(__typeof__(type) *, call(stook_array_bytes(n, sizeof(type)), gfp))

static inline size_t kmem_flex_size(size_t head, size_t n, size_t element)
{
    size_t size;

    if (__builtin_add_overflow(head, stook_array_bytes(n, element), &size))
        size = stook_array_bytes(SIZE_MAX, 2);
    return size;
}

#ifdef __has_builtin
#if __has_builtin(__builtin_counted_by_ref)
#define kmem_flex_count_(array, n)                                                                 \
    *_Generic(__builtin_counted_by_ref(array), void *: &(size_t){0},                               \
              default: __builtin_counted_by_ref(array)) = (n)
#endif
#endif
#ifndef kmem_flex_count_
#define kmem_flex_count_(array, n) ((void)0)
#endif

#define kmem_flex_(call, type, member, count, gfp)                                                 \
    (__extension__({                                                                               \
        const size_t kmem_n_ = (count);                                                            \
        __typeof__(type) *kmem_flex_object_ = STOOK_CAST(                                          \
            __typeof__(type) *,                                                                    \
            call(kmem_flex_size(sizeof(type), kmem_n_, sizeof(*kmem_flex_object_->member)), gfp)); \
        if (kmem_flex_object_)                                                                     \
            kmem_flex_count_(kmem_flex_object_->member, kmem_n_);                                  \
        kmem_flex_object_;                                                                         \
    }))

#define kmalloc_obj(type, ...)                                                                     \
    kmem_objs_(kmalloc, type, 1, kmem_gfp_or_kernel_(type, ##__VA_ARGS__))
#define kmalloc_objs(type, n, ...)                                                                 \
    kmem_objs_(kmalloc, type, n, kmem_gfp_or_kernel_(type, ##__VA_ARGS__))
#define kmalloc_flex(type, member, n, ...)                                                         \
    kmem_flex_(kmalloc, type, member, n, kmem_gfp_or_kernel_(type, ##__VA_ARGS__))
#define kzalloc_obj(type, ...)                                                                     \
    kmem_objs_(kzalloc, type, 1, kmem_gfp_or_kernel_(type, ##__VA_ARGS__))
#define kzalloc_objs(type, n, ...)                                                                 \
    kmem_objs_(kzalloc, type, n, kmem_gfp_or_kernel_(type, ##__VA_ARGS__))
#define kzalloc_flex(type, member, n, ...)                                                         \
    kmem_flex_(kzalloc, type, member, n, kmem_gfp_or_kernel_(type, ##__VA_ARGS__))
#define kvmalloc_obj(type, ...)                                                                    \
    kmem_objs_(kvmalloc, type, 1, kmem_gfp_or_kernel_(type, ##__VA_ARGS__))
#define kvmalloc_objs(type, n, ...)                                                                \
    kmem_objs_(kvmalloc, type, n, kmem_gfp_or_kernel_(type, ##__VA_ARGS__))
#define kvmalloc_flex(type, member, n, ...)                                                        \
    kmem_flex_(kvmalloc, type, member, n, kmem_gfp_or_kernel_(type, ##__VA_ARGS__))
#define kvzalloc_obj(type, ...)                                                                    \
    kmem_objs_(kvzalloc, type, 1, kmem_gfp_or_kernel_(type, ##__VA_ARGS__))
#define kvzalloc_objs(type, n, ...)                                                                \
    kmem_objs_(kvzalloc, type, n, kmem_gfp_or_kernel_(type, ##__VA_ARGS__))
#define kvzalloc_flex(type, member, n, ...)                                                        \
    kmem_flex_(kvzalloc, type, member, n, kmem_gfp_or_kernel_(type, ##__VA_ARGS__))

/* ---- buckets --------------------------------------------------------------------------------- */

/*
 * Caches of kmalloc's sizes that are the program's: "NAME-8" to "NAME-8k".  Memory of sizes that an outsider chooses
 * then lies beside nothing else.  kfree() frees it.  Larger sizes are whole pages, as of kmalloc().
 *
 * flags: SLAB_ACCOUNT, SLAB_HWCACHE_ALIGN, SLAB_PANIC and the debug flags; others that have a meaning fail.  The
 * usercopy range has none.  NULL on failure.
 */
#define KMEM_BUCKETS 13u
typedef struct kmem_buckets {
    struct kmem_cache *cache[KMEM_BUCKETS];
} kmem_buckets;

/* The size of each: what kmalloc() gives for one byte more than the one before. */
static inline size_t kmem_stook_bucket_next(size_t size)
{
    return stook_kmalloc_size(size + 1);
}

/* Ours: the kernel never destroys buckets.  0, or -1 while objects are in use; then it may only be tried again. */
static inline int kmem_stook_buckets_destroy(kmem_buckets *buckets)
{
    int result = 0;

    for (unsigned i = 0; buckets && i < KMEM_BUCKETS; i++) {
        if (stook_cache_destroy(kmem_stook_cache(buckets->cache[i])) == 0)
            buckets->cache[i] = NULL;
        else
            result = -1;
    }
    if (result == 0)
        kfree(buckets);
    return result;
}

/* "NAME-8" to "NAME-8k"; a long name is cut, not the size. */
static inline bool kmem_stook_buckets_fill(kmem_buckets *buckets, const char *given,
                                           slab_flags_t flags, void (*ctor)(void *))
{
    size_t size = kmem_stook_bucket_next(0);

    for (unsigned i = 0; i < KMEM_BUCKETS; i++, size = kmem_stook_bucket_next(size)) {
        size_t align = size < STOOK_ALIGN_MAX ? size & -size : STOOK_ALIGN_MAX;
        char name[STOOK_NAME_MAX + 1];
        snprintf(name, sizeof(name), "%.*s-%u%s", (int)STOOK_NAME_MAX - 5, given,
                 (unsigned)(size < 1024 ? size : size / 1024), size < 1024 ? "" : "k");
        buckets->cache[i] = kmem_create_with_ctor(name, size, align, flags, ctor);
        if (!buckets->cache[i])
            return false;
    }
    return true;
}

static inline STOOK_WARN_UNUSED kmem_buckets *kmem_buckets_create(const char *name,
                                                                  slab_flags_t flags,
                                                                  unsigned useroffset,
                                                                  unsigned usersize,
                                                                  void (*ctor)(void *))
{
    kmem_buckets *buckets = NULL;
    int error = EINVAL;

    (void)useroffset;
    (void)usersize;
    if (name && !(flags & (SLAB_TYPESAFE_BY_RCU | SLAB_NO_SHEAVES))) {
        buckets = (kmem_buckets *)kzalloc(sizeof(*buckets), GFP_KERNEL);
        if (buckets && kmem_stook_buckets_fill(buckets, name, flags, ctor))
            return buckets;
        error = errno;
        (void)kmem_stook_buckets_destroy(buckets);
    }
    if (flags & SLAB_PANIC)
        kmem_stook_panic(name, error);
    errno = error;
    return NULL;
}

/* NULL is kmalloc()'s own caches.  __GFP_ACCOUNT has no meaning for buckets: SLAB_ACCOUNT has. */
static inline STOOK_SIZED(2) void *kmem_buckets_alloc_node(kmem_buckets *buckets, size_t size,
                                                           gfp_t gfp, int node)
{
    unsigned i = 0;

    if (!buckets)
        return kmalloc_node(size, gfp, node);
    if (size == 0 || size > KMALLOC_MAX_CACHE_SIZE)
        return kmalloc_node(size, gfp & ~KMEM_GFP_ACCOUNT, node);
    for (size_t class_ = kmem_stook_bucket_next(0); class_ < size;
         class_ = kmem_stook_bucket_next(class_))
        i++;
    return kmem_cache_alloc_node(buckets->cache[i], gfp, node);
}

static inline STOOK_SIZED(2) void *kmem_buckets_alloc(kmem_buckets *buckets, size_t size, gfp_t gfp)
{
    return kmem_buckets_alloc_node(buckets, size, gfp, NUMA_NO_NODE);
}

static inline STOOK_SIZED(2) void *kmem_buckets_valloc(kmem_buckets *buckets, size_t size,
                                                       gfp_t gfp)
{
    return kmem_buckets_alloc(buckets, size, gfp);
}

#define kmem_buckets_alloc_track_caller(buckets, size, gfp) kmem_buckets_alloc(buckets, size, gfp)
#define kmem_buckets_alloc_node_track_caller(buckets, size, gfp, node)                             \
    kmem_buckets_alloc_node(buckets, size, gfp, node)

/* ---- freed at the end of the scope ----------------------------------------------------------- */

/*
 * char *text __free(kfree) = kmalloc(size, GFP_KERNEL);  frees it where its scope ends; no_free_ptr(text) takes it
 * out, and return_ptr(text) returns it.  NULL and pointers that hold an errno (ERR_PTR()) are left alone.
 *
 * A program with its own <linux/cleanup.h> includes it before, or defines STOOK_KMEM_NO_CLEANUP, which leaves all
 * of this out.
 */
#ifndef STOOK_KMEM_NO_CLEANUP

#define KMEM_ERRNO_MAX 4095 /* ERR_PTR(): the last page of the address space */

static inline bool kmem_is_object(const void *object)
{
    return object && (uintptr_t)object < (uintptr_t)-KMEM_ERRNO_MAX;
}

#ifndef DEFINE_FREE
#define DEFINE_FREE(name, type, code)                                                              \
    static inline void __free_##name(void *kmem_place_)                                            \
    {                                                                                              \
        type _T;                                                                                   \
        memcpy(&_T, kmem_place_, sizeof(_T));                                                      \
        code;                                                                                      \
    }
#define __free(name) __attribute__((cleanup(__free_##name)))
#define no_free_ptr(pointer)                                                                       \
    (__extension__({                                                                               \
        __typeof__(pointer) kmem_kept_ = (pointer);                                                \
        (pointer) = NULL;                                                                          \
        kmem_kept_;                                                                                \
    }))
#define return_ptr(pointer) return no_free_ptr(pointer)
#endif

DEFINE_FREE(kfree, void *, if (kmem_is_object(_T)) kfree(_T))
DEFINE_FREE(kfree_sensitive, void *, if (kmem_is_object(_T)) kfree_sensitive(_T))
DEFINE_FREE(kvfree, void *, if (kmem_is_object(_T)) kvfree(_T))
DEFINE_FREE(kvfree_atomic, void *, if (kmem_is_object(_T)) kvfree_atomic(_T))

#endif /* STOOK_KMEM_NO_CLEANUP */

STOOK_C_END

#endif /* STOOK_KMEM_OBJ_H */
