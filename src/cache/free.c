/* SPDX-License-Identifier: MIT */
#include "account/straight.h"
#include "base/context.h"
#include "base/report.h"
#include "cache/init.h"
#include "cache/private.h"
#include "percpu/percpu.h"
#include "sheaf/slot.h"
#include "slab/mark.h"
#include "slab/slab.h"
#include "slab/stat.h"

/* Sheaves, barn and slabs.  errno is kept. */
static __attribute__((noinline, cold)) void free_rest(struct stook_cache *cache, void *object)
{
    bool nested = context_enter();

    slot_free(cache, &object, 1, nested);
    context_leave();
}

/* The general way of a cache with hooks: what the fast path does for others is tried here. */
static __attribute__((noinline)) void free_accounted(struct stook_cache *cache, void *object)
{
    account_clear(cache, &object, 1);
    if (__builtin_expect(!stat_counts_fast(cache) &&
                             stook_rseq_push(cache->own, cache->head.rseq_offset, object),
                         1))
        return;
    free_rest(cache, object);
}

/* The elements are cleared, but this CPU's main sheaf is full. */
static __attribute__((noinline, cold)) void free_full(struct stook_cache *cache, void *object,
                                                      uint32_t owner, uint32_t tag)
{
    group_uncharge(owner, cache->charge);
    tag_count_free(tag, 1, cache->charge);
    free_rest(cache, object);
}

/* The object has gone, but its stock was closed or is full. */
static __attribute__((noinline, cold)) void free_owe(uint32_t charge, uint32_t owner, uint32_t tag)
{
    group_charge_return(owner, charge);
    tag_count_free(tag, 1, charge);
}

/* All is done but for the count, for which there was no section. */
static __attribute__((noinline, cold)) void free_count(uint32_t charge, uint32_t tag)
{
    tag_count_free(tag, 1, charge);
}

/* The other way round, as alloc_straight().  The object goes before its charge: who has neither yet
 * was told nothing. */
static inline __attribute__((always_inline)) void free_straight(struct stook_cache *cache,
                                                                void *object, const uint32_t way)
{
    uint32_t owner = straight_owners(way) ? 0 : cache->owner, tag = 0;
    intptr_t rseq = percpu.rseq_offset;
    struct straight at;

    if (__builtin_expect(!pagemap_covers(object), 0) ||
        __builtin_expect(pagemap_cache(*pagemap_at(object)) != cache->index, 0) ||
        __builtin_expect(!straight_find(cache, object, way, &at), 0) ||
        (!at.owner && !at.tag && __builtin_expect(!straight_starts(cache, object), 0)) ||
        (at.owner && __builtin_expect(!column_decode(cache, object, *at.owner, &owner), 0)) ||
        (at.tag && __builtin_expect(!column_decode(cache, object, *at.tag, &tag), 0))) {
        free_accounted(cache, object);
        return;
    }
    if (straight_owners(way))
        *at.owner = 0;
    if (straight_tags(way))
        *at.tag = 0;
    if (__builtin_expect(!stook_rseq_push(cache->own, rseq, object), 0))
        free_full(cache, object, owner, tag);
    else if ((way & CACHE_CLOSED_GROUP) &&
             __builtin_expect(!straight_give(way, rseq, owner, cache->charge), 0))
        free_owe(cache->charge, owner, tag);
    else if (straight_tags(way) &&
             __builtin_expect(!tag_count_section(tag, &cache->one, false, rseq), 0))
        free_count(cache->charge, tag);
    else if (straight_tags(way) && tag_peak_falls(cache->charge))
        tag_peak_told();
}

#define FREE_WAY(name, way)                                                                        \
    static __attribute__((noinline)) void free_##name(struct stook_cache *cache, void *object)     \
    {                                                                                              \
        free_straight(cache, object, way);                                                         \
    }
FREE_WAY(group, CACHE_CLOSED_GROUP)
FREE_WAY(tag, CACHE_CLOSED_TAG)
FREE_WAY(both, CACHE_CLOSED_BOTH)
FREE_WAY(owner, CACHE_CLOSED_GROUP | CACHE_CLOSED_OWNER)
FREE_WAY(owner_tag, CACHE_CLOSED_BOTH | CACHE_CLOSED_OWNER)

/* Whether one of them was taken. */
static inline __attribute__((always_inline)) bool free_way(struct stook_cache *cache, void *object)
{
    uint32_t way = atomic_load_explicit(&cache->way, memory_order_relaxed);

    if (way == CACHE_CLOSED_GROUP)
        free_group(cache, object);
    else if (way == CACHE_CLOSED_TAG)
        free_tag(cache, object);
    else if (way == CACHE_CLOSED_BOTH)
        free_both(cache, object);
    else if ((way & CACHE_CLOSED_OWNER) && (way & CACHE_CLOSED_TAG))
        free_owner_tag(cache, object);
    else if (way & CACHE_CLOSED_OWNER)
        free_owner(cache, object);
    else
        return false;
    return true;
}

static __attribute__((noinline, cold)) void free_checked(struct stook_cache *cache, void *object)
{
    uint32_t index;
    const struct slab *slab =
        slab_of(cache, object, &index); /* the report, if it is none of ours */

    mark_check(cache, slab, index);
    free_rest(cache, object);
}

/* Everything but "the main sheaf has room".  errno is kept. */
static __attribute__((noinline, aligned(64))) void free_slow(struct stook_cache *cache,
                                                             void *object)
{
    if (!object)
        return;
    if (free_way(cache, object))
        return;
    if (account_hooks(cache))
        free_accounted(cache, object);
    else
        free_checked(cache, object);
}

__attribute__((aligned(64))) void stook_free(struct stook_cache *cache, void *object)
{
    if (__builtin_expect(
            object && stook_rseq_push(cache->head.slots, cache->head.rseq_offset, object), 1))
        return;
    free_slow(cache, object);
}

/* Without the push, which would take a repeat: slot_free() compares where the slot is closed anyway. */
void stook_private_free(struct stook_cache *cache, void *object)
{
    if (__builtin_expect(account_hooks(cache) != 0, 0))
        free_slow(cache, object); /* the head has no sheaf to push to */
    else
        free_checked(cache, object);
}
