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
