/* SPDX-License-Identifier: MIT */
#include "account/account.h"
#include "base/context.h"
#include "base/report.h"
#include "cache/init.h"
#include "os/percpu.h"
#include "sheaf/slot.h"
#include "slab/slab.h"
#include "slab/stat.h"

/* Everything but "the main sheaf has room".  errno is kept. */
static __attribute__((noinline, cold)) void free_slow(struct stook_cache *cache, void *object)
{
    uint32_t index;
    bool nested;

    if (!object)
        return;
    if (account_hooks(cache)) {
        account_clear(cache, &object, 1);
        if (cache_capacity(cache) > 0 && !stat_counts_fast(cache) &&
            percpu_push(percpu_offset(cache->index), object))
            return;
    } else {
        slab_of(cache, object, &index); /* the report, if it is none of ours */
    }
    nested = context_enter();
    slot_free(cache, &object, 1, nested);
    context_leave();
}

__attribute__((aligned(64))) void stook_free(struct stook_cache *cache, void *object)
{
#if STOOK_RSEQ && defined(STOOK_INLINE_SECTIONS)
    if (__builtin_expect(
            object && stook_rseq_push(cache->head.slots, cache->head.rseq_offset, object), 1))
        return;
#endif
    free_slow(cache, object);
}

void stook_free_any(void *object)
{
    struct stook_cache *cache;

    if (!object)
        return;
    cache = slab_cache_of(object);
    if (__builtin_expect(!cache, 0))
        slab_report(NULL, object, "is no object of any cache");
    stook_free(cache, object);
}

size_t stook_usable_size(const void *object)
{
    struct stook_cache *cache = slab_cache_of(object);

    if (!cache)
        slab_report(NULL, object, "is no object of any cache");
    return cache->ctor || cache->dtor ? cache->object_size : cache->layout.room;
}
