/* SPDX-License-Identifier: MIT */
/*
 * alloc.h - the public allocations and frees, except the first try of the fast path.
 */
#ifndef STOOK_CACHE_ALLOC_H
#define STOOK_CACHE_ALLOC_H

#include "slab/cache.h"

#include <stook/stook.h>

#include <errno.h>

enum { ALLOC_FLAGS = STOOK_NORECLAIM | STOOK_SIGNAL_SAFE | STOOK_ZERO };

/*
 * Whether an allocation may have these flags, of a cache that was not destroyed; errno EINVAL.  The slots of one that was are
 * closed, so its calls come here, as long as its descriptor serves no other cache.  Of one that is kept there is a report
 * (debug/gone.h).
 */
static inline bool alloc_may(const struct stook_cache *cache, unsigned flags)
{
    if (!(flags & ~(unsigned)ALLOC_FLAGS) && !((flags & STOOK_ZERO) && cache->ctor) &&
        __builtin_expect(cache->alive || (cache->flags & CACHE_KEPT), 1))
        return true;
    errno = EINVAL;
    return false;
}

/* No array has more pointers: programs have at most 56 bits of address. */
#define BULK_MOST ((size_t)1 << 53)

/* Whether there may be n objects of these flags at once, or n is 0; errno EINVAL. */
static inline bool bulk_may(const struct stook_cache *cache, unsigned flags, size_t n)
{
    if (!alloc_may(cache, flags) || n == 0)
        return false;
    if (n <= BULK_MOST)
        return true;
    errno = EINVAL;
    return false;
}

/* Whether a section may serve it. */
static inline bool alloc_is_fast(unsigned flags)
{
    return __builtin_expect((flags & ~(STOOK_NORECLAIM | STOOK_SIGNAL_SAFE)) == 0, 1);
}

/* The public ones, past the fast path; `where`: base/where.h. */
void *alloc_object(struct stook_cache *cache, unsigned flags, uint64_t where, uint32_t group);
void *alloc_on_node(struct stook_cache *cache, unsigned flags, int node, uint64_t where,
                    uint32_t group);
/* Past this CPU's sheaves, of a node that has memory. */
void *alloc_from_node(struct stook_cache *cache, unsigned flags, unsigned node);
void free_object(struct stook_cache *cache, void *object);
/* Whether an object may be freed to a cache: it is one of the cache's, and is not back in its slab.  Else the report,
 * and the free is refused. */
bool free_checks(const struct stook_cache *cache, const void *object);

/* The same of a cache whose objects are not accounted, or are already. */
void *alloc_plain(struct stook_cache *cache, unsigned flags);
size_t bulk_alloc_plain(struct stook_cache *cache, unsigned flags, size_t n, void **objects);
/* From sheaves, barn and slabs, then by reclaiming; the flags are right, memory is not zeroed. */
void *alloc_slow(struct stook_cache *cache, unsigned flags);
/* All of n objects or none, of which the caller has `got`. */
size_t bulk_alloc_slow(struct stook_cache *cache, unsigned flags, size_t n, void **objects,
                       size_t got);
/* To sheaves, barn and slabs.  errno is kept. */
void free_slow(struct stook_cache *cache, void *object);

#endif
