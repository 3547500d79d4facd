/* SPDX-License-Identifier: MIT */
/*
 * gone.h - debug caches, and those with a quarantine, that were destroyed: the descriptors of the last ones are kept,
 * so that their use is reported.
 */
#ifndef STOOK_DEBUG_GONE_H
#define STOOK_DEBUG_GONE_H

#include "slab/cache.h"

/* Any context. */
static inline bool gone_is(const struct stook_cache *cache)
{
    return !cache->alive && __atomic_load_n(&cache->link.next, __ATOMIC_RELAXED) == NULL;
}

/* A call with the cache, of this object or none. */
void gone_report(const struct stook_cache *cache, const void *object, uint64_t where);

/* HOOKS_CACHE_GONE, HOOKS_CACHE_IS_GONE */
void *gone_destroyed(struct stook_cache *cache);
void gone_check(const struct stook_cache *cache);

/* The i-th that is kept; NULL behind the last. */
const struct stook_cache *gone_kept(unsigned i);

#endif
