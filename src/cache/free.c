/* SPDX-License-Identifier: MIT */
/*
 * free.c - stook_free(), the check of an object that comes back, and the call of the hook if the cache has one.
 */
#include "cache/alloc.h"

#include "base/context.h"
#include "base/hooks.h"
#include "cache/adapt.h"
#include "percpu/percpu.h"
#include "sheaf/slot.h"
#include "slab/mark.h"
#include "slab/slab.h"
#include "slab/stat.h"

/* Sheaves, barn and slabs.  errno is kept. */
__attribute__((noinline, cold)) void free_slow(struct stook_cache *cache, void *object)
{
    bool nested = context_enter();

    slot_free(cache, &object, 1, nested);
    context_leave();
    adapt_heed(cache, nested);
}

bool free_checks(const struct stook_cache *cache, const void *object)
{
    uint32_t index;
    const struct slab *slab = slab_of(cache, object, &index);

    return __builtin_expect(slab && mark_check(cache, slab, index), 1);
}

/* Everything but "the main sheaf has room".  errno is kept. */
__attribute__((noinline, aligned(64))) void free_object(struct stook_cache *cache, void *object)
{
    if (!object)
        return;
    if (cache_hooks(cache))
        hooks.free(cache, object);
    else if (free_checks(cache, object) &&
             !(cache_checks_frees(cache) && !stat_counts_fast(cache) &&
               stook_rseq_push(cache->own, cache->head.rseq_offset, object)))
        free_slow(cache, object);
}

__attribute__((aligned(64))) void stook_free(struct stook_cache *cache, void *object)
{
    if (__builtin_expect(
            object && stook_rseq_push(cache->head.slots, cache->head.rseq_offset, object), 1))
        return;
    if (object && cache_hooks(cache))
        hooks.free(cache, object);
    else
        free_object(cache, object);
}
