/* SPDX-License-Identifier: MIT */
/*
 * accounted.h - allocating and freeing with accounting: the calls of hooks.h, and variants for reserves and kmalloc,
 * which pass the call site and the group to charge.
 */
#ifndef STOOK_CHARGE_ACCOUNTED_H
#define STOOK_CHARGE_ACCOUNTED_H

#include "cache/alloc.h"
#include "charge/account.h"

/* Allocations of any cache, after the fast path failed.  accounted_alloc() is hooks.alloc. */
void *accounted_alloc(struct stook_cache *cache, unsigned flags, uint64_t where, uint32_t group);
size_t accounted_alloc_bulk(struct stook_cache *cache, unsigned flags, size_t n, void **objects,
                            uint64_t where, uint32_t group);

/* hooks.alloc_more of a cache that is not watched; hooks.free */
size_t accounted_alloc_more(const struct hooks_call *call);
/* The part of it that is no accounting: takes the objects; how many, which are all or none. */
size_t accounted_take(const struct hooks_call *call);
void accounted_free(struct stook_cache *cache, void *object);

/* Closes malloc alone, for the life of the process: one of its classes is a debug cache. */
void accounted_malloc_debug(void);
/* hooks_set.malloc.  It calls `fn` at once with the present state.  Within the context. */
void accounted_on_malloc(void (*fn)(unsigned what, size_t value));
/* HOOKS_CLOSES_*, for a layer above that watches all objects.  Under the cache list's lock. */
void accounted_watched(unsigned closes);

#endif
