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

/* hooks.alloc_node, hooks.alloc_bulk, hooks.free */
void *accounted_alloc_node(struct stook_cache *cache, unsigned flags, unsigned node,
                           uint64_t where);
size_t accounted_alloc_bulk_from(struct stook_cache *cache, unsigned flags, size_t n,
                                 void **objects, uint64_t where);
void accounted_free(struct stook_cache *cache, void *object);

/* Closes all caches of the program for one reason of CACHE_CLOSED_*, or opens them: those made later, large objects
 * and malloc, too.  Under the cache list's lock. */
void accounted_close(uint32_t reason, bool close);
/* Closes malloc alone, for the life of the process: one of its classes is a debug cache. */
void accounted_malloc_debug(void);
/* hooks_set.malloc_closes.  It calls `fn` at once with the present state.  Within the context. */
void accounted_on_malloc(void (*fn)(unsigned closed));
/* Something is sampled from now on: typed caches close, and malloc's allocations. */
void accounted_watch(void);

#endif
