/* SPDX-License-Identifier: MIT */
/*
 * alloc.c - stook_alloc() and its slow path.
 */
#include "cache/alloc.h"

#include "base/hooks.h"
#include "base/where.h"
#include "percpu/percpu.h"
#include "slab/stat.h"

#include <string.h>

/* From sheaves, barn and slabs; then by reclaiming, if the context allows. */
void *alloc_slow(struct stook_cache *cache, unsigned flags)
{
    void *object = NULL;

    (void)bulk_alloc_slow(cache, flags, 1, &object, 0);
    return object;
}

/* Everything but "the main sheaf holds an object", of a cache whose objects are not accounted. */
__attribute__((noinline, cold)) void *alloc_plain(struct stook_cache *cache, unsigned flags)
{
    void *object;

    if (!alloc_may(cache, flags))
        return NULL;
    if (!cache_checks_frees(cache) || stat_counts_fast(cache) ||
        !stook_rseq_pop(cache->own, cache->head.rseq_offset, &object))
        object = alloc_slow(cache, flags);
    if (object && (flags & STOOK_ZERO))
        memset(object, 0, cache->object_size);
    return object;
}

static inline __attribute__((always_inline)) void *alloc_rest(struct stook_cache *cache,
                                                              unsigned flags, uint64_t where,
                                                              uint32_t group)
{
    if (cache_hooks(cache))
        return hooks.alloc(cache, flags, where, group);
    return alloc_plain(cache, flags);
}

void *alloc_object(struct stook_cache *cache, unsigned flags, uint64_t where, uint32_t group)
{
    return alloc_rest(cache, flags, where, group);
}

static inline __attribute__((always_inline)) bool alloc_fast(struct stook_cache *cache,
                                                             unsigned flags, void **object)
{
    return alloc_is_fast(flags) &&
           __builtin_expect(stook_rseq_pop(cache->head.slots, cache->head.rseq_offset, object), 1);
}

/* Aligned, as stook_free(): two lines of code each, not three. */
__attribute__((aligned(64))) void *stook_alloc(struct stook_cache *cache, unsigned flags)
{
    void *object;

    if (alloc_fast(cache, flags, &object))
        return object;
    return alloc_rest(cache, flags, where_address(__builtin_return_address(0)), HOOKS_GROUP);
}
