/* SPDX-License-Identifier: MIT */
/*
 * column.c - clears the tags of a new slab's objects.
 */
#include "slab/column.h"

#include <string.h>

void column_clear(const struct stook_cache *cache, const struct slab *slab, enum layout_which which)
{
    uint32_t flags = slab_flags(atomic_load_explicit(&slab->state, memory_order_relaxed));
    const struct layout_column *column = &cache->layout.column[flags & SLAB_MIN][which];
    char *base = column->outside ? (char *)(uintptr_t)slab : slab_base(slab);
    size_t objects = layout_slab_objects(&cache->layout, flags & SLAB_MIN);

    if (column->stride == column->element) {
        memset(base + column->offset, 0, objects * column->element);
        return;
    }
    for (uint32_t i = 0; i < objects; i++)
        memset(column_at(cache, slab, which, i), 0, column->element);
}
