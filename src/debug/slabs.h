/* SPDX-License-Identifier: MIT */
/*
 * slabs.h - the layout of debug caches' slabs, and the checks of whole slabs of any cache.
 */
#ifndef STOOK_DEBUG_SLABS_H
#define STOOK_DEBUG_SLABS_H

#include "slab/slab.h"

/* hooks.cache_plan, hooks.slab */
void slabs_plan(uint32_t flags, struct layout_request *request);
void slabs_made(const struct stook_cache *cache, struct slab *slab);
void slabs_gone(const struct stook_cache *cache, struct slab *slab);

/*
 * Checks every slab: its freelist, and all bytes of a debug cache.  Reports and repairs errors; returns how many it
 * found.  Within the context at depth 1, with no lock.
 */
size_t slabs_validate(struct stook_cache *cache);

/* HOOKS_CACHE_BUSY: reports the objects that are in use. */
void slabs_busy(struct stook_cache *cache);

/* In a forked child, where no other thread validates. */
void slabs_child(void);

#endif
