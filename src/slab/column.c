/* SPDX-License-Identifier: MIT */
#include "slab/column.h"

#include <string.h>

static size_t column_objects(const struct stook_cache *cache, uint32_t flags)
{
    return flags & SLAB_MIN ? cache->layout.min_objects : cache->layout.objects;
}

size_t column_meta(const struct stook_cache *cache, uint32_t flags)
{
    const struct layout_column *columns = cache->layout.column[flags & SLAB_MIN];
    size_t objects = column_objects(cache, flags);
    size_t bytes = LAYOUT_DESCRIPTOR + cache->layout.marks * objects;

    for (unsigned i = 0; i < LAYOUT_COLUMNS; i++) {
        size_t end = columns[i].offset + objects * columns[i].stride;
        if (columns[i].element && columns[i].outside && end > bytes &&
            (i != LAYOUT_TAG || (flags & SLAB_TAGGED)))
            bytes = end;
    }
    return bytes;
}

void column_clear(const struct stook_cache *cache, const struct slab *slab)
{
    uint32_t flags = slab_flags(atomic_load_explicit(&slab->state, memory_order_relaxed));
    const struct layout_column *column = &cache->layout.column[flags & SLAB_MIN][LAYOUT_TAG];
    char *base = column->outside ? (char *)(uintptr_t)slab : slab_base(slab);
    size_t objects = column_objects(cache, flags);

    if (column->stride == column->element) {
        memset(base + column->offset, 0, objects * column->element);
        return;
    }
    for (uint32_t i = 0; i < objects; i++)
        memset(column_at(cache, slab, LAYOUT_TAG, i), 0, column->element);
}
