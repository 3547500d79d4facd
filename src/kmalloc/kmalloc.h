/* SPDX-License-Identifier: MIT */
/*
 * kmalloc.h - stook_kmalloc() for the library's own callers.
 */
#ifndef STOOK_KMALLOC_KMALLOC_H
#define STOOK_KMALLOC_KMALLOC_H

#include "kmalloc/classes.h"

#include <stook/kmalloc.h>
#include <stook/stook.h>

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct stook_cache;

/* After sample_begin(): closes the fast paths of kmalloc and malloc, so that their allocations are counted, and typed
 * caches for good; or opens the former. */
void stook_kmalloc_doors(void);

/* For a call from there (where_site(), where_address()). */
void *stook_kmalloc_from(size_t size, unsigned flags, uint64_t where);

/* Caches of kmalloc's sizes; all are there once `made`. */
struct kmalloc_set {
    const char *prefix; /* of their names; NULL: a program's own (buckets.c) */
    unsigned flags;
    atomic_bool made;
    _Atomic(struct stook_cache *) cache[KMALLOC_CLASSES];
};
/* stook_kmalloc()'s; and one whose objects are charged to groups, for __GFP_ACCOUNT. */
extern struct kmalloc_set stook_kmalloc_plain,
    stook_kmalloc_charged __attribute__((visibility("hidden")));

/* Makes the caches that the set has not yet; false with errno. */
bool stook_kmalloc_fill_set(struct kmalloc_set *set, const char *prefix,
                            const struct stook_cache_args *args);

/* An object of the set, by the slow path. */
void *stook_kmalloc_set(struct kmalloc_set *set, size_t size, unsigned flags, uint64_t where);

/*
 * An object of the set at a multiple of `align`, of a node or (-1) of any.  And the same for a new size: in place if the
 * object may stay where it is.
 */
void *stook_kmalloc_on(struct kmalloc_set *set, size_t size, size_t align, unsigned flags, int node,
                       uint64_t where);
void *stook_krealloc_on(struct kmalloc_set *set, void *object, size_t size, size_t align,
                        unsigned flags, int node, uint64_t where);
/* The size whose class is aligned enough; 0 with errno EINVAL: `align` is none, or beyond a block. */
size_t stook_kmalloc_aligned(size_t size, size_t align);

/*
 * Whole pages: of a node, or (-1) of any.  `owner`: ACCOUNT_CURRENT or ACCOUNT_NOBODY (charge/account.h); EDQUOT at a
 * limit of the former.
 */
void *stook_kmalloc_large(size_t size, unsigned flags, int node, uint64_t where, uint32_t owner);

static inline bool kmalloc_is_none(const void *object)
{
    return (uintptr_t)object <= (uintptr_t)STOOK_KMALLOC_NONE;
}

#endif
