/* SPDX-License-Identifier: MIT */
/*
 * kmalloc.h - memory of any size without a cache.  stook/stook.h has the conventions; stook/kmem.h gives
 * this, and caches, the kernel's names.
 *
 * Sizes up to STOOK_KMALLOC_CACHE_MAX come from thirteen caches, "kmalloc-8" to "kmalloc-8k", which the
 * first call makes: 8, 16, 32, 64, 96, 128, 192, 256, 512, 1024, 2048, 4096 and 8192 bytes.  Larger sizes
 * are whole pages.
 */
#ifndef STOOK_KMALLOC_H
#define STOOK_KMALLOC_H

#include <stook/stook.h>

#include <stddef.h>
#include <stdint.h>

STOOK_C_BEGIN

#define STOOK_KMALLOC_CACHE_MAX 8192u

/* With STOOK_WAIT or STOOK_NORECLAIM: the call does not fail for want of memory, but sleeps and tries again. */
#define STOOK_NOFAIL 0x100u

/* The memory is charged to the thread's group (stook/group.h): it comes from caches "kmalloc-cg-8" to "kmalloc-cg-8k", or
 * is charged pages.  EDQUOT at a limit; with STOOK_NOFAIL it is then charged to no group. */
#define STOOK_ACCOUNT 0x200u

/* What stook_kmalloc(0) returns: not NULL, not to be read, and nothing to free. */
#define STOOK_KMALLOC_NONE STOOK_CAST(void *, 16)

/*
 * Allocate memory of any size.
 *
 * A size that is a power of two is aligned to itself, up to 2 MiB; 96 bytes to 32, and 192 to 64; other
 * sizes up to 8 KiB as their class, larger ones to a page.  The flags are those of stook_alloc() and
 * STOOK_NOFAIL.  With STOOK_ZERO all bytes of stook_usable_size() are zeros.  The caller frees the memory
 * with stook_free_any().
 *
 * stook_kmalloc_array() allocates n * size bytes.  A product that overflows fails with ENOMEM, also with
 * STOOK_NOFAIL: stook_array_bytes() is SIZE_MAX then, which no call has.
 *
 * stook_kmalloc_with() allocates with arguments, as stook_alloc_with() does.  A group, or fail, is refused (EINVAL).  With
 * STOOK_THISNODE and STOOK_NOFAIL it may fail for want of memory of that node.  args->align is a power of two up to 2 MiB; 0
 * is what the size gives.
 *
 * returns: the memory; STOOK_KMALLOC_NONE for 0 bytes; or NULL
 * errors:  ENOMEM   out of memory, or the flags forbid the work needed to get some: with
 *                   STOOK_SIGNAL_SAFE nothing beyond STOOK_KMALLOC_CACHE_MAX; a size beyond PTRDIFF_MAX
 *          EINVAL   unknown flags, STOOK_NOFAIL with STOOK_SIGNAL_SAFE, there is no such node, or align is
 *                   no power of two up to 2 MiB
 *          EDQUOT   STOOK_ACCOUNT, and the thread's group is at a limit
 * context: any with STOOK_SIGNAL_SAFE, else not in a signal handler; the first call of all fails in a
 *          handler that interrupted the library
 * locks:   as stook_alloc()
 * cost:    stook_alloc()'s, and a load from a table
 */
STOOK_API void *stook_kmalloc(size_t size, unsigned flags) STOOK_MALLOC(1);
STOOK_API void *stook_kmalloc_with(size_t size, unsigned flags, const struct stook_alloc_args *args)
    STOOK_MALLOC(1) STOOK_NONNULL(3);
static inline size_t stook_array_bytes(size_t n, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(n, size, &bytes)) {
        bytes = SIZE_MAX;
        __asm__("" : "+r"(bytes)); /* no constant, of which compilers would warn */
    }
    return bytes;
}
static inline STOOK_MALLOC(1, 2) void *stook_kmalloc_array(size_t n, size_t size, unsigned flags)
{
    return stook_kmalloc(stook_array_bytes(n, size), flags);
}

/*
 * Change the size of an object.
 *
 * Its contents stay, up to the lesser of both sizes.  It is resized in place where its class or the pages
 * behind it allow that; `object` is void when another pointer is returned.  NULL and STOOK_KMALLOC_NONE are
 * stook_kmalloc(); size 0 frees the object.  With STOOK_ZERO the bytes behind the contents are zeros, if
 * every call on this object had the flag.  Any object of this library without a constructor may be resized.
 *
 * stook_krealloc_with() has the arguments of stook_kmalloc_with(): an object that is not aligned so moves, and with
 * STOOK_THISNODE one of another node.
 *
 * stook_krealloc_array() changes it to n * size bytes; a product that overflows fails with ENOMEM.
 *
 * returns: the object; STOOK_KMALLOC_NONE for 0 bytes; or NULL and the object is as it was
 * errors:  as stook_kmalloc()
 * context: as stook_kmalloc(), but in handlers only up to STOOK_KMALLOC_CACHE_MAX bytes
 * locks:   as stook_kmalloc()
 * cost:    as stook_kmalloc(), and copying unless it is resized in place
 */
STOOK_API void *stook_krealloc(void *object, size_t size, unsigned flags) STOOK_SIZED(2);
STOOK_API void *stook_krealloc_with(void *object, size_t size, unsigned flags,
                                    const struct stook_alloc_args *args) STOOK_SIZED(2)
    STOOK_NONNULL(4);
static inline STOOK_SIZED(2, 3) void *stook_krealloc_array(void *object, size_t n, size_t size,
                                                           unsigned flags)
{
    return stook_krealloc(object, stook_array_bytes(n, size), flags);
}

/*
 * The size to ask for that takes no more memory than `size` does, and gives the most bytes.
 *
 * stook_usable_size() of an object that was asked for with it is exactly that.  Of one that was asked for with `size` it
 * is this, too, but only `size` with red zones or a quarantine.
 *
 * returns: the bytes; `size` itself where they overflow
 * context: any
 * locks:   none
 */
STOOK_API size_t stook_kmalloc_size(size_t size);

STOOK_C_END

#ifdef STOOK_SITE
#define stook_kmalloc(...) stook_kmalloc_with(__VA_ARGS__, STOOK_SITE)
#endif

#endif /* STOOK_KMALLOC_H */
