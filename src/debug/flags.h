/* SPDX-License-Identifier: MIT */
/*
 * flags.h - the debug flags of caches, and STOOK_DEBUG: which caches get them at the start.
 *
 * A cache's debug flags are in stook_cache.flags, from its creation on.  T and A do not change its layout, so a program
 * may switch them while the cache is in use (stook_cache.switched).
 */
#ifndef STOOK_DEBUG_FLAGS_H
#define STOOK_DEBUG_FLAGS_H

#include "slab/cache.h"

#include <stook/stook.h>

/* The kernel's letters. */
enum {
    DEBUG_F = STOOK_CACHE_DEBUG_CHECKS,
    DEBUG_Z = STOOK_CACHE_DEBUG_RED_ZONE,
    DEBUG_P = STOOK_CACHE_DEBUG_POISON,
    DEBUG_U = STOOK_CACHE_DEBUG_USER,
    DEBUG_T = STOOK_CACHE_DEBUG_TRACE,
    DEBUG_A = STOOK_CACHE_DEBUG_FAIL,
    DEBUG_SWITCHED = DEBUG_T | DEBUG_A,
    DEBUG_FLAGS = DEBUG_F | DEBUG_Z | DEBUG_P | DEBUG_U | DEBUG_T | DEBUG_A,
};

/* The cache's debug flags; 0: none. */
static inline uint32_t debug_of(const struct stook_cache *cache)
{
    return (cache->flags & DEBUG_FLAGS) ^
           atomic_load_explicit(&cache->switched, memory_order_relaxed);
}

/* Reads STOOK_DEBUG: once, before the first cache. */
void debug_flags_start(void);

/*
 * The flags of a cache of this name that is made now: those of STOOK_DEBUG, and those `asked` for when it
 * is created.  The library's own caches have none.
 */
uint32_t debug_flags_of(const char *name, uint32_t asked);

/* Whether STOOK_DEBUG names flags for all caches. */
bool debug_flags_everywhere(void);

/* Whether large objects have Z: STOOK_DEBUG gives it to the name "large" or to all, or AddressSanitizer or Valgrind
 * watches.  Written once, before the first object. */
extern bool debug_flags_large __attribute__((visibility("hidden")));

/* Whether STOOK_DEBUG gives U to large objects (debug/pages_track.h). */
bool debug_flags_large_users(void);

#endif
