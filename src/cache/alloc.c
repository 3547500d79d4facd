/* SPDX-License-Identifier: MIT */
#include "cache/alloc.h"

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

/* For a cache with hooks: what the fast path does for others is tried here. */
static void *alloc_accounted(struct stook_cache *cache, unsigned flags, uint64_t where,
                             uint32_t group)
{
    struct account account;
    void *object;

    if (!account_begin(cache, &account, 1, flags, where, group))
        return NULL;
    if (cache_capacity(cache) == 0 || stat_counts_fast(cache) ||
        !percpu_pop(percpu_offset(cache->index), &object))
        object = alloc_slow(cache, flags);
    account_end(cache, &account, &object, object != NULL, 1);
    return object;
}

/* Everything but "the main sheaf holds an object". */
__attribute__((noinline, cold)) void *alloc_object(struct stook_cache *cache, unsigned flags,
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
