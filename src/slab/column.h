/* SPDX-License-Identifier: MIT */
/*
 * column.h - where the elements lie that the layers above have asked for, one an object: an owner, a
 * tag, 8 bytes each.  Those layers say what an element means (charge/element.h).  None needs a
 * lock, since only the thread that has the object in hand, to give it out or to take it back, reads or writes its
 * elements.  A new slab's elements hold anything, except tags, which are cleared.
 */
#ifndef STOOK_SLAB_COLUMN_H
#define STOOK_SLAB_COLUMN_H

#include "slab/slab.h"

/* The element of an object, of a slab with these flags (SLAB_MIN and SLAB_TAGGED never change); NULL
 * where it has no such column. */
static inline __attribute__((always_inline)) void *column_in(const struct stook_cache *cache,
                                                             const struct slab *slab,
                                                             uint32_t flags,
                                                             enum layout_which which,
                                                             uint32_t index)
{
    const struct layout_column *column = &cache->layout.column[flags & SLAB_MIN][which];
    char *base = column->outside ? (char *)(uintptr_t)slab : slab_base(slab);

    if (column->element == 0 || (which == LAYOUT_TAG && !(flags & SLAB_TAGGED)))
        return NULL;
    return base + column->offset + (size_t)index * column->stride;
}

static inline void *column_at(const struct stook_cache *cache, const struct slab *slab,
                              enum layout_which which, uint32_t index)
{
    return column_in(cache, slab,
                     slab_flags(atomic_load_explicit(&slab->state, memory_order_relaxed)), which,
                     index);
}

/* Bytes of a slab's descriptor with all that lies behind it; `flags` are its SLAB_*. */
static inline size_t column_meta(const struct stook_cache *cache, uint32_t flags)
{
    return layout_meta(&cache->layout, flags & SLAB_MIN, flags & SLAB_TAGGED);
}

#endif
