/* SPDX-License-Identifier: MIT */
/*
 * kmalloc.h - memory of any size without a cache of one's own, freed by its address alone.  stook/kmem.h
 * gives this, and caches, the kernel's names.
 *
 * Sizes up to STOOK_KMALLOC_CACHE_MAX come from thirteen caches, "kmalloc-8" to "kmalloc-8k" (8, 16,
 * 32, 64, 96, 128, 192, 256, 512, 1024, 2048, 4096 and 8192 bytes), which are made with the first
 * call; larger ones are whole pages.
 */
#ifndef STOOK_KMALLOC_H
#define STOOK_KMALLOC_H

#include <stook/stook.h>

#ifdef __cplusplus
extern "C" {
#endif

#define STOOK_KMALLOC_CACHE_MAX 8192u

/* With STOOK_WAIT or STOOK_NORECLAIM: does not fail for want of memory, but naps and tries again. */
#define STOOK_NOFAIL 0x100u

/* What stook_kmalloc(0) gives: not NULL, not to be read, and nothing to free. */
#define STOOK_KMALLOC_NONE ((void *)16)

/*
 * `size` bytes.  A size that is a power of two is aligned to itself, up to 2 MiB; 96 to 32 bytes, 192
 * to 64; other sizes up to 8 KiB as their class, larger ones to a page.  flags: those of
 * stook_alloc() and STOOK_NOFAIL.  With STOOK_ZERO all of stook_usable_size() is zeros.  STOOK_WAIT
 * reclaims before it fails.
 *
 * errors (NULL): ENOMEM   no memory, or none to be had in this context: with STOOK_SIGNAL_SAFE nothing
 *                         beyond STOOK_KMALLOC_CACHE_MAX; size beyond PTRDIFF_MAX
 *                EINVAL   unknown flags, or STOOK_NOFAIL with STOOK_SIGNAL_SAFE
 * context: signal handlers with STOOK_SIGNAL_SAFE; the first call of all fails in one that interrupted
 * the library.  locks: as stook_alloc().  cost: that of stook_alloc() and of a look into a table.
 */
STOOK_API void *stook_kmalloc(size_t size, unsigned flags) STOOK_WARN_UNUSED;
STOOK_API void *stook_kmalloc_at(size_t size, unsigned flags,
                                 struct stook_site *site) STOOK_WARN_UNUSED;

/*
 * The same of a node: stook_alloc_node() of any size, with its errors; -1 is stook_kmalloc().  With
 * STOOK_THISNODE and STOOK_NOFAIL it may fail for want of memory of that node.
 * cost: of another node than the caller's that of both calls.
 */
STOOK_API void *stook_kmalloc_node(size_t size, unsigned flags, int node) STOOK_WARN_UNUSED;

/*
 * Change an object's size: its contents stay, up to the lesser of both sizes.  In place where its
 * class or the pages behind it allow it; `object` is void when another pointer comes back.  NULL and
 * STOOK_KMALLOC_NONE are stook_kmalloc(); size 0 frees and gives STOOK_KMALLOC_NONE.  With STOOK_ZERO
 * what lies behind the contents is zeros, if every call on this object had it.  Any object of this
 * library that has no constructor may be resized.
 *
 * errors (NULL): as stook_kmalloc(); the object is as it was
 * context, locks: as stook_kmalloc(), but only objects up to STOOK_KMALLOC_CACHE_MAX in handlers.
 */
STOOK_API void *stook_krealloc(void *object, size_t size, unsigned flags) STOOK_WARN_UNUSED;

/*
 * stook_kmalloc() and stook_krealloc() of n * size bytes; with STOOK_ZERO that is calloc().  A product that
 * overflows fails with ENOMEM, and the object is as it was.
 */
STOOK_API void *stook_kmalloc_array(size_t n, size_t size, unsigned flags) STOOK_WARN_UNUSED;
STOOK_API void *stook_krealloc_array(void *object, size_t n, size_t size,
                                     unsigned flags) STOOK_WARN_UNUSED;

/* What stook_usable_size() will be of an object of this size; `size` itself where it overflows. */
STOOK_API size_t stook_kmalloc_size(size_t size);

#ifdef __cplusplus
}
#endif

#ifdef STOOK_SITE
#define stook_kmalloc(...) stook_kmalloc_at(__VA_ARGS__, STOOK_SITE)
#endif

#endif /* STOOK_KMALLOC_H */
