/* SPDX-License-Identifier: MIT */
/*
 * straight.h - the fast path of accounting, for one object: steps that accounted_alloc.c and accounted_free.c inline.
 *
 * A step that returns false has changed nothing, and the caller takes the general path of account.h.  The fast path
 * reads no more than the object's entry in the page map and the flags of its slab, so these take the general path:
 *
 *   slabs of the minimum order
 *   slabs without tags while tags are counted, and slabs with tags while they are not
 *   objects that are charged to no group
 *   pointers that are no objects
 *
 * docs/decisions/0016-what-accounting-costs.md measures the cost, and says why it is not lower.
 */
#ifndef STOOK_CHARGE_STRAIGHT_H
#define STOOK_CHARGE_STRAIGHT_H

#include "charge/account.h"
#include "charge/element.h"
#include "charge/group.h"
#include "charge/group_stock.h"
#include "charge/group_table.h"
#include "site/tag.h"

#define STRAIGHT static inline __attribute__((always_inline))

/* Whether a cache whose stook_cache.way is this has a column of owners, or of tags.  Callers pass a constant. */
STRAIGHT bool straight_owners(uint32_t way)
{
    return (way & ACCOUNT_GROUP) && !(way & ACCOUNT_OWNER);
}

STRAIGHT bool straight_tags(uint32_t way)
{
    return way & ACCOUNT_TAG;
}

/* Takes n bytes out of this CPU's stock of the group.  A section does it; the group that malloc charges
 * (ACCOUNT_OWNER) has stocks that are words (group_stock.h).  straight_give() puts them back. */
STRAIGHT bool straight_take(uint32_t way, char *stock, intptr_t rseq, uint32_t owner, uint32_t n)
{
    _Atomic uint64_t *word;

    if (!(way & ACCOUNT_OWNER))
        return group_stock_try_take(stock, rseq, owner, n);
    word = group_stock_word_here(rseq, owner);
    return word && group_stock_word_take(word, owner, n, false);
}

STRAIGHT bool straight_give(uint32_t way, intptr_t rseq, uint32_t owner, uint32_t n)
{
    uint32_t most = group_stock_most(owner);
    _Atomic uint64_t *word;

    if (!(way & ACCOUNT_OWNER))
        return group_stock_try_give(group_stock_row(owner), rseq, owner, n, most);
    word = group_stock_word_here(rseq, owner);
    return word && group_stock_word_give(word, owner, n, most, false);
}

/* The elements of an object; NULL: the cache has no such column. */
struct straight {
    uint64_t *owner, *tag;
};

/* The offset of an object in its slab, which is aligned to its size. */
STRAIGHT uint32_t straight_offset(const struct stook_cache *cache, const void *object)
{
    return (uint32_t)(uintptr_t)object & cache->account.span;
}

/* Whether the pointer is the start of an object. */
STRAIGHT bool straight_starts(const struct stook_cache *cache, const void *object)
{
    uint32_t index;

    return layout_starts(&cache->layout, straight_offset(cache, object), cache->layout.objects,
                         &index);
}

/* The element of an object in a slab of the preferred order. */
STRAIGHT uint64_t *straight_element(const struct stook_cache *cache, const void *object,
                                    const struct slab *slab, enum layout_which which)
{
    uint32_t outside = cache->account.outside[which], offset;

    if (__builtin_expect(outside != 0, 1))
        return (uint64_t *)((uintptr_t)slab + outside) +
               layout_index(&cache->layout, straight_offset(cache, object));
    if (cache->account.beside[which])
        return (uint64_t *)((uintptr_t)object + cache->account.beside[which]);
    offset = straight_offset(cache, object); /* an array in the slab's leftover bytes */
    return (uint64_t *)((uintptr_t)object - offset + cache->layout.column[0][which].offset) +
           layout_index(&cache->layout, offset);
}

/* Finds the elements of any pointer to pages of the cache.  Whether it is an object shows when they are decoded. */
STRAIGHT bool straight_find(const struct stook_cache *cache, const void *object, uint32_t way,
                            struct straight *at)
{
    const struct slab *slab = slab_at(object, *pagemap_at(object));
    uint32_t right = straight_tags(way) ? SLAB_TAGGED : 0, flags = right;

    /* Owners at a distance from their objects have the same distance in slabs of both orders. */
    if (way != ACCOUNT_GROUP || cache->account.beside[LAYOUT_GROUP] == 0 ||
        atomic_load_explicit(&cache->tagged, memory_order_relaxed) != 0)
        flags = slab_flags(atomic_load_explicit(&slab->state, memory_order_relaxed)) &
                (SLAB_MIN | SLAB_TAGGED);
    if (__builtin_expect(flags != right, 0))
        return false;
    at->owner = at->tag = NULL;
    if (straight_owners(way))
        at->owner = straight_element(cache, object, slab, LAYOUT_GROUP);
    if (straight_tags(way))
        at->tag = straight_element(cache, object, slab, LAYOUT_TAG);
    return true;
}

/* The tag of a site that has one already; else 0.  Calls that are known by address have none here. */
STRAIGHT uint32_t straight_site(uint64_t where)
{
    return __builtin_expect(where & 1, 1)
               ? __atomic_load_n(&((struct stook_site *)(uintptr_t)(where >> 1))->tag,
                                 __ATOMIC_ACQUIRE)
               : 0;
}

/* The tag of a call (where_site(), where_address()). */
STRAIGHT uint32_t straight_tag(uint64_t where)
{
    return where & 1 ? tag_of_site((struct stook_site *)(uintptr_t)(where >> 1))
                     : tag_of_address((const void *)(uintptr_t)(where >> 1));
}

#endif
