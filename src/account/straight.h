/* SPDX-License-Identifier: MIT */
/*
 * straight.h - what account.h does, for one object and where nothing is in the way: inlined, each
 * thing looked up once.  Whoever is told "no" has changed nothing and goes the long way.
 *
 * docs/decisions/0016-what-accounting-costs.md has what it costs and why not less.
 */
#ifndef STOOK_ACCOUNT_STRAIGHT_H
#define STOOK_ACCOUNT_STRAIGHT_H

#include "account/account.h"
#include "account/group.h"
#include "account/group_stock.h"
#include "account/group_table.h"
#include "account/tag.h"
#include "slab/column.h"

#define STRAIGHT static inline __attribute__((always_inline))

/* An object with all that is asked about it more than once. */
struct straight {
    const struct slab *slab;
    char *base;            /* of the slab */
    size_t bytes;          /* … when it is of the preferred order, else 0 */
    uint32_t index, flags; /* the object's; SLAB_* */
};

STRAIGHT struct straight straight_find(const struct stook_cache *cache, const void *object)
{
    struct straight at;

    at.slab = slab_at(object, *pagemap_at(object));
    at.base = slab_base(at.slab);
    at.index = layout_index(&cache->layout, (uint32_t)((const char *)object - at.base));
    at.flags = slab_flags(atomic_load_explicit(&at.slab->state, memory_order_relaxed));
    at.bytes = at.flags & SLAB_MIN ? 0 : (size_t)PAGE_SIZE << cache->layout.order;
    return at;
}

/* Whether an address is in the same slab as the object before, and then its index there. */
STRAIGHT bool straight_same(const struct stook_cache *cache, struct straight *at,
                            const void *object)
{
    size_t offset = (uintptr_t)object - (uintptr_t)at->base;

    if (offset >= at->bytes)
        return false;
    at->index = layout_index(&cache->layout, (uint32_t)offset);
    return true;
}

STRAIGHT bool straight_starts(const struct stook_cache *cache, const struct straight *at,
                              const void *object)
{
    uint32_t objects = __builtin_expect(at->flags & SLAB_MIN, 0) ? cache->layout.min_objects
                                                                 : cache->layout.objects;

    return at->index * cache->layout.stride == (uint32_t)((const char *)object - at->base) &&
           at->index < objects;
}

/* Of an address that somebody frees: checked as slab_of() does, which has the report. */
STRAIGHT struct straight straight_check(const struct stook_cache *cache, const void *object)
{
    struct straight at;

    if (__builtin_expect(pagemap_covers(object), 1) &&
        __builtin_expect(pagemap_cache(*pagemap_at(object)) == cache->index, 1)) {
        at = straight_find(cache, object);
        if (__builtin_expect(straight_starts(cache, &at, object), 1))
            return at;
    }
    at = (struct straight){0};
    at.slab = slab_of(cache, object, &at.index); /* does not come back */
    return at;
}

/* As column_in() of a column that is there; slabs are of the preferred order but when memory is
 * short. */
STRAIGHT uint64_t *straight_column(const struct stook_cache *cache, const struct straight *at,
                                   enum layout_which which)
{
    const struct layout_column *column = &cache->layout.column[0][which];
    char *base;

    if (__builtin_expect(at->flags & SLAB_MIN, 0))
        return column_in(cache, at->slab, at->flags, which, at->index);
    base = column->outside ? (char *)(uintptr_t)at->slab : at->base;
    return (uint64_t *)(void *)(base + column->offset + (size_t)at->index * column->stride);
}

/* The tag of a call (account_site(), account_address()) for so many bytes. */
STRAIGHT uint32_t straight_tag(uint64_t where, uint64_t bytes)
{
    return where & 1 ? tag_of_site((struct stook_site *)(uintptr_t)(where >> 1))
                     : tag_of_call((const void *)(uintptr_t)(where >> 1), bytes);
}

/* Charges one object to the group, in one section. */
STRAIGHT bool straight_charge(const struct stook_cache *cache, uint32_t group)
{
    return group == 0 || group_stock_take_fast(group, cache->charge);
}

STRAIGHT void straight_uncharge(const struct stook_cache *cache, uint32_t group)
{
    uint32_t most;

    if (group == 0)
        return;
    most = atomic_load_explicit(&group_at(group)->most, memory_order_relaxed);
    if (__builtin_expect(cache->charge > most, 0) ||
        __builtin_expect(!group_stock_give_fast(group, cache->charge, most), 0))
        group_charge_return(group, cache->charge);
}

/* A tag column that still says something is of an object that was freed past the hooks, by a
 * thread that had not noticed yet that they are on. */
STRAIGHT void straight_write_tag(const struct stook_cache *cache, uint64_t *tag, uint32_t index,
                                 uint32_t now)
{
    uint32_t old;

    if (__builtin_expect(*tag != 0, 0) && column_decode(cache, index, *tag, &old))
        tag_count_free(old, 1, cache->charge);
    *tag = column_encode(cache, index, now);
}

/* Owner and tag of an object that was taken, under the hooks of `closed`; whether it has room for a
 * tag: others would never be counted off. */
STRAIGHT bool straight_stamp(const struct stook_cache *cache, const struct straight *at,
                             uint32_t closed, struct account account)
{
    if ((closed & CACHE_CLOSED_GROUP) && !cache->owner)
        *straight_column(cache, at, LAYOUT_GROUP) = column_encode(cache, at->index, account.group);
    if (!(at->flags & SLAB_TAGGED))
        return false;
    straight_write_tag(cache, straight_column(cache, at, LAYOUT_TAG), at->index, account.tag);
    return true;
}

/* What a column of a live object says, which is cleared. */
STRAIGHT uint32_t straight_take(const struct stook_cache *cache, const void *object,
                                uint64_t *column, uint32_t index, const char *what)
{
    uint32_t value;

    if (__builtin_expect(!column_decode(cache, index, *column, &value), 0))
        account_report(cache, object, what);
    *column = 0;
    return value;
}

/* Owner and tag of an object that somebody frees, which are cleared; 0 for none. */
STRAIGHT struct account straight_clear(const struct stook_cache *cache, const struct straight *at,
                                       const void *object, uint32_t closed)
{
    struct account account = {.group = cache->owner, .tag = 0};

    if ((closed & CACHE_CLOSED_GROUP) && !cache->owner)
        account.group = straight_take(cache, object, straight_column(cache, at, LAYOUT_GROUP),
                                      at->index, "owner");
    if (at->flags & SLAB_TAGGED)
        account.tag =
            straight_take(cache, object, straight_column(cache, at, LAYOUT_TAG), at->index, "tag");
    return account;
}

#endif
