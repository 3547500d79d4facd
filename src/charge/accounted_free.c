/* SPDX-License-Identifier: MIT */
/*
 * accounted_free.c - frees of caches whose objects are accounted; see accounted_alloc.c.
 */
#include "charge/accounted.h"

#include "charge/account_fast.h"
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
ACCOUNT_INLINE void accounted_fast(struct stook_cache *cache, void *object, const uint32_t parts)
{
    uint32_t owner = account_has_owners(parts) ? 0 : cache->account.owner, tag = 0;
    intptr_t rseq = percpu.rseq_offset;
    struct account_elements at;

    if (__builtin_expect(!pagemap_covers(object), 0) ||
        __builtin_expect(pagemap_cache(*pagemap_at(object)) != cache->index, 0) ||
        __builtin_expect(!account_find_elements(cache, object, parts, &at), 0) ||
        (!at.owner && !at.tag && __builtin_expect(!account_is_object_start(cache, object), 0)) ||
        (at.owner && __builtin_expect(!column_decode(cache, object, *at.owner, &owner), 0)) ||
        (at.tag && __builtin_expect(!column_decode(cache, object, *at.tag, &tag), 0))) {
        accounted_free_rest(cache, object);
        return;
    }
    if (account_has_owners(parts))
        *at.owner = 0;
    if (account_has_tags(parts))
        *at.tag = 0;
    if (__builtin_expect(!stook_rseq_push(cache->own, rseq, object), 0))
        accounted_full(cache, object, owner, tag);
    else if ((parts & ACCOUNT_GROUP) &&
             __builtin_expect(!fast_put(parts, rseq, owner, cache->account.charge), 0))
        accounted_owe(cache->account.charge, owner, tag);
    else if (account_has_tags(parts) &&
             __builtin_expect(!tag_count_section(tag, &cache->account.one, false, rseq), 0))
        accounted_count(cache->account.charge, tag);
}

#define ACCOUNTED_FAST(name, parts)                                                                \
    static                                                                                         \
        __attribute__((noinline)) void accounted_##name(struct stook_cache *cache, void *object)   \
    {                                                                                              \
        accounted_fast(cache, object, parts);                                                      \
    }
ACCOUNTED_FAST(group, ACCOUNT_GROUP)
ACCOUNTED_FAST(tag, ACCOUNT_TAG)
ACCOUNTED_FAST(both, ACCOUNT_BOTH)
ACCOUNTED_FAST(owner, ACCOUNT_GROUP | ACCOUNT_OWNER)
ACCOUNTED_FAST(owner_tag, ACCOUNT_BOTH | ACCOUNT_OWNER)

__attribute__((noinline, aligned(64))) void accounted_free(struct stook_cache *cache, void *object)
{
    uint32_t parts = atomic_load_explicit(&cache->fast_parts, memory_order_relaxed);

    if (parts == ACCOUNT_GROUP)
        accounted_group(cache, object);
    else if (parts == ACCOUNT_TAG)
        accounted_tag(cache, object);
    else if (parts == ACCOUNT_BOTH)
        accounted_both(cache, object);
    else if ((parts & ACCOUNT_OWNER) && (parts & ACCOUNT_TAG))
        accounted_owner_tag(cache, object);
    else if (parts & ACCOUNT_OWNER)
        accounted_owner(cache, object);
    else
        accounted_free_rest(cache, object);
}
