/* SPDX-License-Identifier: MIT */
/*
 * kmalloc.h - stook_kmalloc() for the library's own callers.
 */
#ifndef STOOK_KMALLOC_KMALLOC_H
#define STOOK_KMALLOC_KMALLOC_H

#include <stook/kmalloc.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct stook_cache;

/* After sample_begin(): closes the fast paths of kmalloc and malloc, so that their allocations are counted, and typed
 * caches for good; or opens the former. */
void kmalloc_doors(void);

/* For a call from there (where_site(), where_address()). */
void *stook_kmalloc_from(size_t size, unsigned flags, uint64_t where);
void *stook_krealloc_from(void *object, size_t size, unsigned flags, uint64_t where);
void *stook_kmalloc_node_from(size_t size, unsigned flags, int node, uint64_t where);

/*
 * Whole pages: of a node, or (-1) of any.  `owner`: ACCOUNT_CURRENT or ACCOUNT_NOBODY (charge/account.h); EDQUOT at a
 * limit of the former.
 */
void *stook_kmalloc_large(size_t size, unsigned flags, int node, uint64_t where, uint32_t owner);

/* An object of a cache of a class, of which `size` bytes are asked for; `owner` as above. */
void *stook_kmalloc_cached(struct stook_cache *cache, size_t size, unsigned flags, uint64_t where,
                           uint32_t owner);

/*
 * `object`, which was allocated wherever the thread runs, or another one of that node in its place, of the same cache.
 * `plain` are the flags without STOOK_THISNODE and STOOK_NOFAIL; `strict`: NULL rather than another node's.
 */
void *stook_kmalloc_of_node(void *object, size_t size, unsigned plain, bool strict, int node,
                            uint64_t where, uint32_t owner);

/* With STOOK_ZERO: what lies behind the contents, from byte `from` to the end of the object, is zeros. */
void *stook_kmalloc_zero_from(void *object, size_t from, unsigned flags);

static inline bool kmalloc_is_none(const void *object)
{
    return (uintptr_t)object <= (uintptr_t)STOOK_KMALLOC_NONE;
}

#endif
