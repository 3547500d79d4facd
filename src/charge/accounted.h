/* SPDX-License-Identifier: MIT */
/*
 * accounted.h - allocating and freeing with an account: the calls of hooks.h, and the same for reserves and
 * kmalloc, which know a call's site and the group that is charged.
 */
#ifndef STOOK_CHARGE_ACCOUNTED_H
#define STOOK_CHARGE_ACCOUNTED_H

#include "cache/alloc.h"
#include "charge/account.h"

/* Of any cache, everything but the first try of the fast path; the first is hooks.alloc. */
void *accounted_alloc(struct stook_cache *cache, unsigned flags, uint64_t where, uint32_t group);
size_t accounted_alloc_bulk(struct stook_cache *cache, unsigned flags, size_t n, void **objects,
                            uint64_t where, uint32_t group);

/* hooks.alloc_node, hooks.alloc_bulk, hooks.free */
void *accounted_alloc_node(struct stook_cache *cache, unsigned flags, unsigned node,
                           uint64_t where);
size_t accounted_alloc_bulk_from(struct stook_cache *cache, unsigned flags, size_t n,
                                 void **objects, uint64_t where);
void accounted_free(struct stook_cache *cache, void *object);

/* Closes all of the program's caches for one reason of CACHE_CLOSED_*, those to come as well, and large
 * objects and malloc with them; or opens them.  Under the cache list's lock. */
void accounted_close(uint32_t reason, bool close);
/* The same of malloc alone, for good: one of its classes is a debug cache. */
void accounted_malloc_debug(void);
/* hooks_set.malloc_closes, which is called at once with what is so now.  Within the context. */
void accounted_on_malloc(void (*fn)(unsigned closed));
/* Something is sampled from now on: typed caches close, and malloc's allocations. */
void accounted_watch(void);

#endif
