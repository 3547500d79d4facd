/* SPDX-License-Identifier: MIT */
/*
 * straight.h - what account.h does, for one object and where nothing is in the way: inlined, each
 * thing looked up once.  Whoever is told "no" has changed nothing and goes the general way, through
 * account.h.
 *
 * In the way is all that needs a look at more than the object's entry in the page map and the flags
 * of its slab: slabs of the minimum order, slabs without tags while tags are counted or with tags
 * while they are not, objects of nobody, pointers that are no objects.
 *
 * docs/decisions/0016-what-accounting-costs.md has what it costs and why not less.
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

/* Whether a way (stook_cache.way, a constant where this is asked) has owners and tags in columns. */
STRAIGHT bool straight_owners(uint32_t way)
{
    return (way & CACHE_CLOSED_GROUP) && !(way & CACHE_CLOSED_OWNER);
}

STRAIGHT bool straight_tags(uint32_t way)
{
    return way & CACHE_CLOSED_TAG;
}

/* n bytes out of this CPU's stock, or into it: by a section, or of a cache whose objects are all charged
 * to one group, malloc's, whose stocks are words.  False: the general way knows more. */
STRAIGHT bool straight_take(uint32_t way, char *stock, intptr_t rseq, uint32_t owner, uint32_t n)
{
    _Atomic uint64_t *word;

    if (!(way & CACHE_CLOSED_OWNER))
        return group_stock_try_take(stock, rseq, owner, n);
    word = group_stock_word_here(rseq, owner);
    return word && group_stock_word_take(word, owner, n, false);
}

STRAIGHT bool straight_give(uint32_t way, intptr_t rseq, uint32_t owner, uint32_t n)
{
    uint32_t most = group_stock_most(owner);
    _Atomic uint64_t *word;

    if (!(way & CACHE_CLOSED_OWNER))
        return group_stock_try_give(group_stock_row(owner), rseq, owner, n, most);
    word = group_stock_word_here(rseq, owner);
    return word && group_stock_word_give(word, owner, n, most, false);
}

/* The elements of an object; NULL: the way has no such column. */
struct straight {
    uint64_t *owner, *tag;
};

/* An object's place among those of its slab, which is aligned to its size. */
STRAIGHT uint32_t straight_offset(const struct stook_cache *cache, const void *object)
{
    return (uint32_t)(uintptr_t)object & cache->account.span;
}

STRAIGHT bool straight_starts(const struct stook_cache *cache, const void *object)
{
    uint32_t offset = straight_offset(cache, object);
    uint32_t index = layout_index(&cache->layout, offset);

    return index * cache->layout.stride == offset && index < cache->layout.objects;
}

/* Of a slab of the preferred order. */
STRAIGHT uint64_t *straight_element(const struct stook_cache *cache, const void *object,
                                    const struct slab *slab, enum layout_which which)
{
    uint32_t outside = cache->account.outside[which], offset;

    if (__builtin_expect(outside != 0, 1))
        return (uint64_t *)((uintptr_t)slab + outside) +
               layout_index(&cache->layout, straight_offset(cache, object));
    if (cache->account.beside[which])
        return (uint64_t *)((uintptr_t)object + cache->account.beside[which]);
    offset = straight_offset(cache, object); /* leftover: an array, too */
    return (uint64_t *)((uintptr_t)object - offset + cache->layout.column[0][which].offset) +
           layout_index(&cache->layout, offset);
}

/* The elements of an object, or of any pointer to pages of the cache's: what they hold tells which. */
STRAIGHT bool straight_find(const struct stook_cache *cache, const void *object, uint32_t way,
                            struct straight *at)
{
    const struct slab *slab = slab_at(object, *pagemap_at(object));
    uint32_t right = straight_tags(way) ? SLAB_TAGGED : 0, flags = right;

    /* Slabs of both orders have what is beside objects in the same places. */
    if (way != CACHE_CLOSED_GROUP || cache->account.beside[LAYOUT_GROUP] == 0 ||
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

/* The tag of a site that has one; else 0, and 0 for calls that are known by address. */
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
