/* SPDX-License-Identifier: MIT */
/*
 * column.h - the columns of 8 bytes an object: who it is charged to, which call site took it.
 *
 * An element is a number from 1 on, stored xor the cache's key and the object's address, whose halves
 * change places: the upper half must come out as zeros, and hangs on the object, so bytes that an
 * overrun wrote, another object's element or a pointer into an object give no number.  All zeros are
 * "none", and no number is stored so: bit 32 of the key is set, and an object's address is even.
 * Only whoever has the object in hand, to give it out or to take it back, reads or writes its
 * elements, so they need no lock.
 */
#ifndef STOOK_SLAB_COLUMN_H
#define STOOK_SLAB_COLUMN_H

#include "slab/slab.h"

static inline uint64_t column_mask(const struct stook_cache *cache, const void *object)
{
    uint64_t address = (uintptr_t)object;

    return cache->key ^ (address << 32 | address >> 32);
}

#define COLUMN_KEY ((uint64_t)1 << 32) /* set in every cache's */

static inline uint64_t column_encode(const struct stook_cache *cache, const void *object,
                                     uint32_t number)
{
    return number ? number ^ column_mask(cache, object) : 0;
}

/* False: nothing, or no number that was ever stored there. */
static inline bool column_decode(const struct stook_cache *cache, const void *object,
                                 uint64_t stored, uint32_t *number)
{
    uint64_t value = stored ^ column_mask(cache, object);

    *number = (uint32_t)value;
    return value >> 32 == 0;
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

/* What is added to an object's address for its element, where that holds in all slabs: it is in the
 * strides.  Else 0. */
uint32_t column_beside(const struct layout *layout, enum layout_which which);

/* A new slab's tags say "none": threads may free past the hooks until they notice. */
void column_clear(const struct stook_cache *cache, const struct slab *slab);

#endif
