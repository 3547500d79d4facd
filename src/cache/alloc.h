/* SPDX-License-Identifier: MIT */
/*
 * alloc.h - the public allocations with what they do not say themselves: where the call comes from
 * and which group pays (account/account.h).
 */
#ifndef STOOK_CACHE_ALLOC_H
#define STOOK_CACHE_ALLOC_H

#include "account/account.h"

#include <stook/stook.h>

enum { ALLOC_FLAGS = STOOK_NORECLAIM | STOOK_SIGNAL_SAFE | STOOK_ZERO };

/* All but the first try of the fast path. */
void *alloc_object(struct stook_cache *cache, unsigned flags, uint64_t where, uint32_t group);
size_t bulk_alloc(struct stook_cache *cache, unsigned flags, size_t n, void **objects,
                  uint64_t where, uint32_t group);
/* stook_kmalloc() for a call from there. */
void *stook_kmalloc_from(size_t size, unsigned flags, uint64_t where);

#endif
