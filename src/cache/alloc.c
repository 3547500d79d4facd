/* SPDX-License-Identifier: MIT */
#include "cache/alloc.h"

#include "account/straight.h"
#include "account/trace.h"
#include "base/context.h"
#include "cache/init.h"
#include "cache/reclaim.h"
#include "os/percpu.h"
#include "sheaf/slot.h"
#include "slab/stat.h"

#include <errno.h>
#include <string.h>

/* From sheaves, barn and slabs; then by reclaiming, if the context allows. */
static void *alloc_slow(struct stook_cache *cache, unsigned flags)
{
    int saved = errno;
    void *object = NULL;
    bool nested = context_enter();

    slot_alloc(cache, &object, 1, nested || (flags & STOOK_NOSPIN));
    context_leave();
    if (__builtin_expect(!object, 0) && reclaim_may(flags, nested) &&
        reclaim_alloc(cache, &object, 1) == 1)
        errno = saved;
    return object;
}

/* For a cache with hooks: charged already, or not to be. */
static void *alloc_charged(struct stook_cache *cache, unsigned flags, const struct account *account)
{
    void *object = alloc_slow(cache, flags);

    account_end(cache, account, &object, object != NULL, 1);
    return object;
}

/* For a cache with hooks: what the fast path does for others is tried there, and more. */
static __attribute__((noinline, cold)) void *alloc_accounted(struct stook_cache *cache,
                                                             unsigned flags, uint64_t where,
                                                             uint32_t group)
{
    struct account account;

    if (!account_begin(cache, &account, 1, flags, where, group))
        return NULL;
    return alloc_charged(cache, flags, &account);
}

/* Everything but "the main sheaf holds an object". */
static __attribute__((noinline, cold)) void *alloc_rest(struct stook_cache *cache, unsigned flags,
                                                        uint64_t where, uint32_t group)
{
    void *object;

    if ((flags & ~(unsigned)ALLOC_FLAGS) || ((flags & STOOK_ZERO) && cache->ctor)) {
        errno = EINVAL;
        return NULL;
    }
    object = account_hooks(cache) ? alloc_accounted(cache, flags, where, group)
                                  : alloc_slow(cache, flags);
    if (object && (flags & STOOK_ZERO))
        memset(object, 0, cache->object_size);
    return object;
}

#if STOOK_RSEQ && defined(STOOK_INLINE_SECTIONS)
/* The fast path of a cache with hooks: a charge and an object, a section each; else NULL, and nothing
 * was changed. */
static inline __attribute__((always_inline)) void *alloc_straight(struct stook_cache *cache,
                                                                  unsigned flags, uint64_t where,
                                                                  uint32_t group, uint32_t closed)
{
    struct account account = {0};
    struct straight at;
    void *object;

    if ((flags & ~(STOOK_NOWAIT | STOOK_NOSPIN)) || (closed & CACHE_CLOSED_STAT))
        return NULL;
    if ((closed & CACHE_CLOSED_GROUP) && group != ACCOUNT_NOBODY) {
        account.group = cache->owner               ? cache->owner
                        : group == ACCOUNT_CURRENT ? group_thread.lineage[0]
                                                   : group;
        if (__builtin_expect(!straight_charge(cache, account.group), 0))
            return NULL;
    }
    if (__builtin_expect(!stook_rseq_pop(percpu.areas + percpu_offset(cache->index),
                                         cache->head.rseq_offset, &object),
                         0)) {
        straight_uncharge(cache, account.group);
        return NULL;
    }
    if ((closed & CACHE_CLOSED_TRACE) && where)
        trace_alloc(cache, &object, 1);
    /* One owner for all, and no slab that has room for tags: there is nothing to write. */
    if ((cache->owner || !(closed & CACHE_CLOSED_GROUP)) &&
        atomic_load_explicit(&cache->tagged, memory_order_relaxed) == 0)
        return object;
    if ((closed & CACHE_CLOSED_TAG) && where)
        account.tag = straight_tag(where, cache->charge);
    at = straight_find(cache, object);
    if (straight_stamp(cache, &at, closed, account))
        tag_count_alloc(account.tag, 1, cache->charge);
    return object;
}
#endif

__attribute__((noinline, aligned(64))) void *alloc_object(struct stook_cache *cache, unsigned flags,
                                                          uint64_t where, uint32_t group)
{
#if STOOK_RSEQ && defined(STOOK_INLINE_SECTIONS)
    uint32_t closed = atomic_load_explicit(&cache->closed, memory_order_relaxed);

    if (closed & CACHE_CLOSED_ACCOUNT) {
        void *object = alloc_straight(cache, flags, where, group, closed);
        if (__builtin_expect(object != NULL, 1))
            return object;
    }
#endif
    return alloc_rest(cache, flags, where, group);
}

static inline __attribute__((always_inline)) bool alloc_fast(struct stook_cache *cache,
                                                             unsigned flags, void **object)
{
#if STOOK_RSEQ && defined(STOOK_INLINE_SECTIONS)
    return __builtin_expect((flags & ~(STOOK_NOWAIT | STOOK_NOSPIN)) == 0, 1) &&
           __builtin_expect(stook_rseq_pop(cache->head.slots, cache->head.rseq_offset, object), 1);
#else
    (void)cache;
    (void)flags;
    (void)object;
    return false;
#endif
}

/* Aligned, as stook_free(): two lines of code each, not three. */
__attribute__((aligned(64))) void *stook_alloc(struct stook_cache *cache, unsigned flags)
{
    void *object;

    if (alloc_fast(cache, flags, &object))
        return object;
    return alloc_object(cache, flags, account_address(__builtin_return_address(0)),
                        ACCOUNT_CURRENT);
}

__attribute__((aligned(64))) void *stook_alloc_at(struct stook_cache *cache, unsigned flags,
                                                  struct stook_site *site)
{
    void *object;

    if (alloc_fast(cache, flags, &object))
        return object;
    return alloc_object(cache, flags,
                        site ? account_site(site) : account_address(__builtin_return_address(0)),
                        ACCOUNT_CURRENT);
}
