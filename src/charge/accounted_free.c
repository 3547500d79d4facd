/* SPDX-License-Identifier: MIT */
/*
 * accounted_free.c - frees of caches whose objects are accounted; see accounted_alloc.c.
 */
#include "charge/accounted.h"

#include "charge/straight.h"
#include "percpu/percpu.h"
#include "slab/stat.h"

/* The general path.  Its caches' own fast path is closed, so the push onto this CPU's sheaf is tried here. */
static __attribute__((noinline)) void accounted_free_rest(struct stook_cache *cache, void *object)
{
    hooks.free_more(cache, &object, 1);
    if (__builtin_expect(!object, 0)) /* refused, or held back */
        return;
    if (__builtin_expect(!stat_counts_fast(cache) &&
                             stook_rseq_push(cache->own, cache->head.rseq_offset, object),
                         1))
        return;
    free_slow(cache, object);
}

/* The elements are cleared, but this CPU's main sheaf is full. */
static __attribute__((noinline, cold)) void accounted_full(struct stook_cache *cache, void *object,
                                                           uint32_t owner, uint32_t tag)
{
    group_uncharge(owner, cache->account.charge);
    tag_count_free(tag, 1, cache->account.charge);
    free_slow(cache, object);
}

/* The object has gone, but its stock was closed or is full. */
static __attribute__((noinline, cold)) void accounted_owe(uint32_t charge, uint32_t owner,
                                                          uint32_t tag)
{
    group_charge_return(owner, charge);
    tag_count_free(tag, 1, charge);
}

/* The object is freed; no section could count it, so count it here. */
static __attribute__((noinline, cold)) void accounted_count(uint32_t charge, uint32_t tag)
{
    tag_count_free(tag, 1, charge);
}

/* The fast path, in the opposite order of accounted_alloc.c: the object is freed first, and then its charge is
 * returned.  Until the sheaf has the object, no counter has changed. */
static inline __attribute__((always_inline)) void accounted_straight(struct stook_cache *cache,
                                                                     void *object,
                                                                     const uint32_t way)
{
    uint32_t owner = straight_owners(way) ? 0 : cache->account.owner, tag = 0;
    intptr_t rseq = percpu.rseq_offset;
    struct straight at;

    if (__builtin_expect(!pagemap_covers(object), 0) ||
        __builtin_expect(pagemap_cache(*pagemap_at(object)) != cache->index, 0) ||
        __builtin_expect(!straight_find(cache, object, way, &at), 0) ||
        (!at.owner && !at.tag && __builtin_expect(!straight_starts(cache, object), 0)) ||
        (at.owner && __builtin_expect(!column_decode(cache, object, *at.owner, &owner), 0)) ||
        (at.tag && __builtin_expect(!column_decode(cache, object, *at.tag, &tag), 0))) {
        accounted_free_rest(cache, object);
        return;
    }
    if (straight_owners(way))
        *at.owner = 0;
    if (straight_tags(way))
        *at.tag = 0;
    if (__builtin_expect(!stook_rseq_push(cache->own, rseq, object), 0))
        accounted_full(cache, object, owner, tag);
    else if ((way & ACCOUNT_GROUP) &&
             __builtin_expect(!straight_give(way, rseq, owner, cache->account.charge), 0))
        accounted_owe(cache->account.charge, owner, tag);
    else if (straight_tags(way) &&
             __builtin_expect(!tag_count_section(tag, &cache->account.one, false, rseq), 0))
        accounted_count(cache->account.charge, tag);
}

#define ACCOUNTED_WAY(name, way)                                                                   \
    static                                                                                         \
        __attribute__((noinline)) void accounted_##name(struct stook_cache *cache, void *object)   \
    {                                                                                              \
        accounted_straight(cache, object, way);                                                    \
    }
ACCOUNTED_WAY(group, ACCOUNT_GROUP)
ACCOUNTED_WAY(tag, ACCOUNT_TAG)
ACCOUNTED_WAY(both, ACCOUNT_BOTH)
ACCOUNTED_WAY(owner, ACCOUNT_GROUP | ACCOUNT_OWNER)
ACCOUNTED_WAY(owner_tag, ACCOUNT_BOTH | ACCOUNT_OWNER)

__attribute__((noinline, aligned(64))) void accounted_free(struct stook_cache *cache, void *object)
{
    uint32_t way = atomic_load_explicit(&cache->way, memory_order_relaxed);

    if (way == ACCOUNT_GROUP)
        accounted_group(cache, object);
    else if (way == ACCOUNT_TAG)
        accounted_tag(cache, object);
    else if (way == ACCOUNT_BOTH)
        accounted_both(cache, object);
    else if ((way & ACCOUNT_OWNER) && (way & ACCOUNT_TAG))
        accounted_owner_tag(cache, object);
    else if (way & ACCOUNT_OWNER)
        accounted_owner(cache, object);
    else
        accounted_free_rest(cache, object);
}
