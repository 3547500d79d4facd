/* SPDX-License-Identifier: MIT */
#include "account/straight.h"
#include "account/trace.h"
#include "base/context.h"
#include "base/report.h"
#include "cache/init.h"
#include "os/percpu.h"
#include "sheaf/slot.h"
#include "slab/slab.h"
#include "slab/stat.h"

/* Sheaves, barn and slabs.  errno is kept. */
static __attribute__((noinline, cold)) void free_rest(struct stook_cache *cache, void *object)
{
    bool nested = context_enter();

    slot_free(cache, &object, 1, nested);
    context_leave();
}

/* For a cache with hooks: what the fast path does for others is tried here. */
static inline __attribute__((always_inline)) void free_accounted(struct stook_cache *cache,
                                                                 void *object, uint32_t closed)
{
    struct straight at = straight_check(cache, object);
    struct account account = straight_clear(cache, &at, object, closed);

    straight_uncharge(cache, account.group);
    tag_count_free(account.tag, 1, cache->charge);
    if (closed & CACHE_CLOSED_TRACE)
        trace_free(&object, 1);
#if STOOK_RSEQ && defined(STOOK_INLINE_SECTIONS)
    if (__builtin_expect(!(closed & CACHE_CLOSED_STAT) &&
                             stook_rseq_push(percpu.areas + percpu_offset(cache->index),
                                             cache->head.rseq_offset, object),
                         1))
        return;
#endif
    free_rest(cache, object);
}

/* Everything but "the main sheaf has room".  errno is kept. */
static __attribute__((noinline, aligned(64))) void free_slow(struct stook_cache *cache,
                                                             void *object)
{
    uint32_t closed = atomic_load_explicit(&cache->closed, memory_order_relaxed), index;

    if (!object)
        return;
    if (closed & CACHE_CLOSED_ACCOUNT) {
        free_accounted(cache, object, closed);
        return;
    }
    slab_of(cache, object, &index); /* the report, if it is none of ours */
    free_rest(cache, object);
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
