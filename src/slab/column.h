/* SPDX-License-Identifier: MIT */
/*
 * column.h - the columns of 8 bytes an object: who it is charged to, which call site took it.
 *
 * An element is a number from 1 on, stored so that bytes which an overrun wrote are taken for
 * corruption and not for a number: xor the cache's key and the object's index, under a mark.  All
 * zeros are "none".  Only whoever has the object in hand, to give it out or to take it back, reads
 * or writes its elements, so they need no lock.
 */
#ifndef STOOK_SLAB_COLUMN_H
#define STOOK_SLAB_COLUMN_H

#include "slab/slab.h"

#define COLUMN_MARK ((uint64_t)0x57004b << 32)

static inline uint64_t column_mask(const struct stook_cache *cache, uint32_t index)
{
    return cache->key ^ (uint64_t)index * 0x9e3779b97f4a7c15u;
}

static inline uint64_t column_encode(const struct stook_cache *cache, uint32_t index,
                                     uint32_t number)
{
    return number ? (COLUMN_MARK | number) ^ column_mask(cache, index) : 0;
}

/* False: no number that was ever stored there. */
static inline bool column_decode(const struct stook_cache *cache, uint32_t index, uint64_t stored,
                                 uint32_t *number)
{
    uint64_t value = stored ? stored ^ column_mask(cache, index) : COLUMN_MARK;

    *number = (uint32_t)value;
    return value >> 32 == COLUMN_MARK >> 32;
}

/* The element of an object, of a slab with these flags (SLAB_MIN and SLAB_TAGGED never change); NULL
 * where it has no such column. */
static inline __attribute__((always_inline)) uint64_t *column_in(const struct stook_cache *cache,
                                                                 const struct slab *slab,
                                                                 uint32_t flags,
                                                                 enum layout_which which,
                                                                 uint32_t index)
{
    const struct layout_column *column = &cache->layout.column[flags & SLAB_MIN][which];
    char *base = column->outside ? (char *)(uintptr_t)slab : slab_base(slab);

    if (column->element == 0 || (which == LAYOUT_TAG && !(flags & SLAB_TAGGED)))
        return NULL;
    return (uint64_t *)(void *)(base + column->offset + (size_t)index * column->stride);
}

static inline uint64_t *column_at(const struct stook_cache *cache, const struct slab *slab,
                                  enum layout_which which, uint32_t index)
{
    return column_in(cache, slab,
                     slab_flags(atomic_load_explicit(&slab->state, memory_order_relaxed)), which,
                     index);
}

/* Bytes of a slab's descriptor with all that lies behind it; `flags` are its SLAB_*.  Tags come last
 * there, and only slabs that have them have room for them. */
size_t column_meta(const struct stook_cache *cache, uint32_t flags);

/* What an object costs: its stride, and what it has elsewhere. */
uint32_t column_charge(const struct layout *layout);

/* A new slab's tags say "none": threads may free past the hooks until they notice. */
void column_clear(const struct stook_cache *cache, const struct slab *slab);

#endif
