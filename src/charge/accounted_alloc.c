/* SPDX-License-Identifier: MIT */
/*
 * accounted_alloc.c - allocations of caches whose objects are accounted.  The fast paths are made of restartable
 * sections, one path for each set of reasons; the general path serves every cache with hooks.
 */
#include "charge/accounted.h"

#include "charge/account_fast.h"
#include "percpu/percpu.h"
#include "slab/stat.h"

#include <string.h>

size_t accounted_take(const struct hooks_call *call)
{
    struct stook_cache *cache = call->cache;
    void *object = NULL;

    if (call->node >= 0)
        object = alloc_from_node(cache, call->flags & ~STOOK_ZERO, (unsigned)call->node);
    else if (call->n > 1)
        return bulk_alloc_slow(cache, call->flags, call->n, call->objects, 0);
    else if (stat_counts_fast(cache) ||
             !stook_rseq_pop(cache->own, cache->head.rseq_offset, &object))
        object = alloc_slow(cache, call->flags);
    *call->objects = object;
    return object != NULL;
}

size_t accounted_alloc_more(const struct hooks_call *call)
{
    struct stook_cache *cache = call->cache;
    struct account account;
    size_t got;

    if (!bulk_may(cache, call->flags, call->n) ||
        !account_begin(cache, &account, call->n, call->flags, call->where, call->group))
        return 0;
    got = accounted_take(call);
    account_end(cache, &account, call->objects, got, call->n);
    for (size_t i = 0; i < got && (call->flags & STOOK_ZERO); i++)
        memset(call->objects[i], 0, cache->object_size);
    return got;
}

/* The general path. */
static __attribute__((noinline, cold)) void *accounted_rest(struct stook_cache *cache,
                                                            unsigned flags, uint64_t where,
                                                            uint32_t group)
{
    void *object = NULL;

    (void)hooks.alloc_more(&(struct hooks_call){cache, flags, -1, where, group, 1, &object});
    return object;
}

/* Charged, but this CPU's main sheaf is empty. */
static __attribute__((noinline, cold)) void *accounted_refill(struct stook_cache *cache,
                                                              unsigned flags, uint64_t where,
                                                              uint32_t group, uint32_t owner)
{
    group_uncharge(owner, cache->account.charge);
    return accounted_rest(cache, flags, where, group);
}

/* The object is taken and charged: the general path from there. */
static __attribute__((noinline)) void *accounted_stamp(struct stook_cache *cache, void *object,
                                                       uint32_t owner, uint64_t where)
{
    struct account account = {.group = owner, .tag = 0};

    if (where && (cache_parts(cache) & ACCOUNT_TAG))
        account.tag = account_call_tag(where);
    account_end(cache, &account, &object, 1, 1);
    return object;
}

/* The object is allocated; no section could count it, so count it here. */
static __attribute__((noinline, cold)) void *accounted_count(struct stook_cache *cache,
                                                             void *object, uint32_t tag)
{
    tag_count_alloc(tag, 1, cache->account.charge);
    return object;
}

/*
 * A charge, an object and a count, a section each.  What is in the way goes to accounted_rest() while
 * there is no object, then to accounted_stamp(): by calls that stand last, so that nothing is saved
 * across them.  `parts` is a constant, and the flags are those of the fast path.
 */
ACCOUNT_INLINE void *accounted_fast(struct stook_cache *cache, unsigned flags, uint64_t where,
                                    uint32_t group, const uint32_t parts)
{
    uint32_t owner = 0, tag = 0;
    intptr_t rseq = percpu.rseq_offset;
    struct account_elements at;
    void *object;

    if (parts & ACCOUNT_GROUP) {
        bool entered = account_has_owners(parts) && __builtin_expect(group == ACCOUNT_CURRENT, 1);
        char *stock;
        owner = entered                     ? group_thread.lineage[0]
                : account_has_owners(parts) ? group
                                            : cache->account.owner;
        stock = entered ? group_thread.stock : group_stock_row(owner);
        if (__builtin_expect(owner == 0, 0) || __builtin_expect(group == ACCOUNT_NOBODY, 0) ||
            __builtin_expect(!fast_take(parts, stock, rseq, owner, cache->account.charge), 0))
            return accounted_rest(cache, flags, where, group);
    }
    if (__builtin_expect(!stook_rseq_pop(cache->own, rseq, &object), 0))
        return accounted_refill(cache, flags, where, group, owner);
    /* No slab that has room for tags: there is nothing to write. */
    if (!account_has_owners(parts) &&
        atomic_load_explicit(&cache->tagged, memory_order_relaxed) == 0)
        return object;
    if (account_has_tags(parts))
        tag = account_site_tag(where);
    if ((account_has_tags(parts) && __builtin_expect(tag == 0, 0)) ||
        __builtin_expect(!account_find_elements(cache, object, parts, &at), 0) ||
        (account_has_tags(parts) && __builtin_expect(*at.tag != 0, 0)))
        return accounted_stamp(cache, object, owner, where);
    if (account_has_owners(parts))
        *at.owner = owner ^ column_mask(cache, object);
    if (!account_has_tags(parts))
        return object;
    *at.tag = tag ^ column_mask(cache, object);
    if (__builtin_expect(!tag_count_section(tag, &cache->account.one, true, rseq), 0))
        return accounted_count(cache, object, tag);
    return object;
}

/* Functions of their own, so that none saves the registers that another one needs. */
#define ACCOUNTED_FAST(name, parts)                                                                \
    static __attribute__((noinline)) void *accounted_##name(                                       \
        struct stook_cache *cache, unsigned flags, uint64_t where, uint32_t group)                 \
    {                                                                                              \
        return accounted_fast(cache, flags, where, group, parts);                                  \
    }
ACCOUNTED_FAST(group, ACCOUNT_GROUP)
ACCOUNTED_FAST(tag, ACCOUNT_TAG)
ACCOUNTED_FAST(both, ACCOUNT_BOTH)
ACCOUNTED_FAST(owner, ACCOUNT_GROUP | ACCOUNT_OWNER)
ACCOUNTED_FAST(owner_tag, ACCOUNT_BOTH | ACCOUNT_OWNER)

__attribute__((noinline, aligned(64))) void *accounted_alloc(struct stook_cache *cache,
                                                             unsigned flags, uint64_t where,
                                                             uint32_t group)
{
    uint32_t parts = atomic_load_explicit(&cache->fast_parts, memory_order_relaxed);

    if (alloc_is_fast(flags)) {
        if (parts == ACCOUNT_GROUP)
            return accounted_group(cache, flags, where, group);
        if (parts == ACCOUNT_TAG)
            return accounted_tag(cache, flags, where, group);
        if (parts == ACCOUNT_BOTH)
            return accounted_both(cache, flags, where, group);
        if ((parts & ACCOUNT_OWNER) && (parts & ACCOUNT_TAG))
            return accounted_owner_tag(cache, flags, where, group);
        if (parts & ACCOUNT_OWNER)
            return accounted_owner(cache, flags, where, group);
    }
    if (!cache_hooks(cache))
        return alloc_plain(cache, flags);
    return accounted_rest(cache, flags, where, group);
}

/* ---- several ------------------------------------------------------------------------------- */

size_t accounted_alloc_bulk(struct stook_cache *cache, unsigned flags, size_t n, void **objects,
                            uint64_t where, uint32_t group)
{
    return cache_hooks(cache)
               ? hooks.alloc_more(&(struct hooks_call){cache, flags, -1, where, group, n, objects})
               : bulk_alloc_plain(cache, flags, n, objects);
}
