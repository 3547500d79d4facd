/* SPDX-License-Identifier: MIT */
#include "cache/alloc.h"

#include "account/straight.h"
#include "base/context.h"
#include "cache/init.h"
#include "cache/reclaim.h"
#include "cache/upkeep.h"
#include "percpu/percpu.h"
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

    slot_alloc(cache, &object, 1, nested || (flags & STOOK_SIGNAL_SAFE));
    context_leave();
    if (__builtin_expect(!object, 0) && reclaim_may(flags, nested) &&
        reclaim_alloc(cache, &object, 1) == 1)
        errno = saved;
    upkeep_after(cache, flags, nested);
    return object;
}

/* For a cache with hooks: charged already, or not to be. */
static void *alloc_charged(struct stook_cache *cache, unsigned flags, const struct account *account)
{
    void *object = NULL;

    if (stat_counts_fast(cache) || !stook_rseq_pop(cache->own, cache->head.rseq_offset, &object))
        object = alloc_slow(cache, flags);
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

/* Charged, but this CPU's main sheaf is empty. */
static __attribute__((noinline, cold)) void *alloc_refill(struct stook_cache *cache, unsigned flags,
                                                          uint64_t where, uint32_t group,
                                                          uint32_t owner)
{
    group_uncharge(owner, cache->charge);
    return alloc_rest(cache, flags, where, group);
}

/* Taken and charged: the general way from there. */
static __attribute__((noinline)) void *alloc_stamp(struct stook_cache *cache, void *object,
                                                   uint32_t owner, uint64_t where)
{
    struct account account = {.group = owner, .tag = 0};

    if (where && (account_hooks(cache) & CACHE_CLOSED_TAG))
        account.tag = straight_tag(where, cache->charge);
    account_end(cache, &account, &object, 1, 1);
    return object;
}

/* Done but for the count, for which there was no section. */
static __attribute__((noinline, cold)) void *alloc_count(struct stook_cache *cache, void *object,
                                                         uint32_t tag)
{
    tag_count_alloc(tag, 1, cache->charge);
    return object;
}

static __attribute__((noinline, cold)) void *alloc_told(void *object)
{
    tag_peak_told();
    return object;
}

/*
 * A charge, an object and a count, a section each.  What is in the way goes to alloc_rest() while
 * there is no object, then to alloc_stamp(): by calls that stand last, so that nothing is saved
 * across them.  `way` is a constant, and the flags are those of the fast path.
 */
static inline __attribute__((always_inline)) void *alloc_straight(struct stook_cache *cache,
                                                                  unsigned flags, uint64_t where,
                                                                  uint32_t group,
                                                                  const uint32_t way)
{
    uint32_t owner = 0, tag = 0;
    intptr_t rseq = percpu.rseq_offset;
    struct straight at;
    void *object;

    if (way & CACHE_CLOSED_GROUP) {
        bool entered = straight_owners(way) && __builtin_expect(group == ACCOUNT_CURRENT, 1);
        char *stock;
        owner = entered ? group_thread.lineage[0] : straight_owners(way) ? group : cache->owner;
        stock = entered ? group_thread.stock : group_stock_row(owner);
        if (__builtin_expect(owner == 0, 0) || __builtin_expect(group == ACCOUNT_NOBODY, 0) ||
            __builtin_expect(!straight_take(way, stock, rseq, owner, cache->charge), 0))
            return alloc_rest(cache, flags, where, group);
    }
    if (__builtin_expect(!stook_rseq_pop(cache->own, rseq, &object), 0))
        return alloc_refill(cache, flags, where, group, owner);
    /* No slab that has room for tags: there is nothing to write. */
    if (!straight_owners(way) && atomic_load_explicit(&cache->tagged, memory_order_relaxed) == 0)
        return object;
    if (straight_tags(way))
        tag = straight_site(where);
    if ((straight_tags(way) && __builtin_expect(tag == 0, 0)) ||
        __builtin_expect(!straight_find(cache, object, way, &at), 0) ||
        (straight_tags(way) && __builtin_expect(*at.tag != 0, 0)))
        return alloc_stamp(cache, object, owner, where);
    if (straight_owners(way))
        *at.owner = owner ^ column_mask(cache, object);
    if (!straight_tags(way))
        return object;
    *at.tag = tag ^ column_mask(cache, object);
    if (__builtin_expect(!tag_count_section(tag, &cache->one, true, rseq), 0))
        return alloc_count(cache, object, tag);
    return tag_peak_rises(cache->charge) ? alloc_told(object) : object;
}

/* Functions of their own, so that none saves the registers that another one needs. */
#define ALLOC_WAY(name, way)                                                                       \
    static __attribute__((noinline)) void *alloc_##name(struct stook_cache *cache, unsigned flags, \
                                                        uint64_t where, uint32_t group)            \
    {                                                                                              \
        return alloc_straight(cache, flags, where, group, way);                                    \
    }
ALLOC_WAY(group, CACHE_CLOSED_GROUP)
ALLOC_WAY(tag, CACHE_CLOSED_TAG)
ALLOC_WAY(both, CACHE_CLOSED_BOTH)
ALLOC_WAY(owner, CACHE_CLOSED_GROUP | CACHE_CLOSED_OWNER)
ALLOC_WAY(owner_tag, CACHE_CLOSED_BOTH | CACHE_CLOSED_OWNER)

__attribute__((noinline, aligned(64))) void *alloc_object(struct stook_cache *cache, unsigned flags,
                                                          uint64_t where, uint32_t group)
{
    uint32_t way = atomic_load_explicit(&cache->way, memory_order_relaxed);

    if (__builtin_expect((flags & ~(STOOK_NORECLAIM | STOOK_SIGNAL_SAFE)) == 0, 1)) {
        if (way == CACHE_CLOSED_GROUP)
            return alloc_group(cache, flags, where, group);
        if (way == CACHE_CLOSED_TAG)
            return alloc_tag(cache, flags, where, group);
        if (way == CACHE_CLOSED_BOTH)
            return alloc_both(cache, flags, where, group);
        if ((way & CACHE_CLOSED_OWNER) && (way & CACHE_CLOSED_TAG))
            return alloc_owner_tag(cache, flags, where, group);
        if (way & CACHE_CLOSED_OWNER)
            return alloc_owner(cache, flags, where, group);
    }
    return alloc_rest(cache, flags, where, group);
}

static inline __attribute__((always_inline)) bool alloc_fast(struct stook_cache *cache,
                                                             unsigned flags, void **object)
{
    return __builtin_expect((flags & ~(STOOK_NORECLAIM | STOOK_SIGNAL_SAFE)) == 0, 1) &&
           __builtin_expect(stook_rseq_pop(cache->head.slots, cache->head.rseq_offset, object), 1);
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
