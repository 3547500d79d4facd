/* SPDX-License-Identifier: MIT */
/*
 * columns.c - tries the places that a column may have, and keeps the cheapest combination.
 */
#include "slab/columns.h"

#include <stook/stook.h>

#include <string.h>

static uint32_t columns_round(uint32_t n, uint32_t align)
{
    return (n + align - 1) & ~(align - 1);
}

/*
 * The columns of `mask` one behind the other from `at` on, n elements each, in the order that ends
 * first; the end.  An order in which each begins as early as it can is at least as good as any
 * arrangement in that order, so trying the orders tries everything.
 */
static uint32_t columns_pack(const struct columns_object *object, unsigned mask, uint32_t at,
                             uint32_t n, uint32_t offset[LAYOUT_COLUMNS])
{
    uint32_t best = UINT32_MAX, tail[LAYOUT_COLUMNS];

    if (mask == 0)
        return at;
    for (unsigned i = 0; i < LAYOUT_COLUMNS; i++) {
        uint32_t start, end, element = object->element[i];
        if (!(mask & 1u << i))
            continue;
        start = columns_round(at, layout_element_align(element));
        end = columns_pack(object, mask & ~(1u << i), start + n * element, n, tail);
        if (end < best) {
            best = end;
            for (unsigned k = 0; k < LAYOUT_COLUMNS; k++)
                if (mask & 1u << k)
                    offset[k] = k == i ? start : tail[k];
        }
    }
    return best;
}

/* Columns of one place each, as bits. */
struct columns_masks {
    unsigned inside, behind, outside, free;
};

/* The stride, with the columns inside it. */
static void columns_stride(const struct columns_object *object, const struct columns_masks *masks,
                           struct columns_way *way)
{
    uint32_t offset[LAYOUT_COLUMNS], align = object->align, end;

    way->stride = object->stride;
    if (!(masks->inside | masks->free))
        return;
    if (masks->inside) {
        for (unsigned i = 0; i < LAYOUT_COLUMNS; i++)
            if (masks->inside & 1u << i && layout_element_align(object->element[i]) > align)
                align = layout_element_align(object->element[i]);
        /* From the slab's start, as elements are aligned: the lead may be a multiple of less. */
        end = columns_pack(object, masks->inside, object->lead + object->used, 1, offset) -
              object->lead;
        /* What fits into padding is shorter than the alignment, so that is a multiple of its own. */
        if (end > way->stride)
            way->stride = columns_round(end, align);
    }
    for (unsigned i = 0; i < LAYOUT_COLUMNS; i++) {
        struct layout_column *column = &way->column[i];
        uint32_t element = object->element[i];
        if (masks->inside & 1u << i) {
            *column = (struct layout_column){offset[i], way->stride, (uint16_t)element, false,
                                             LAYOUT_DEDICATED};
            if (way->stride == object->stride ||
                offset[i] + element <= object->lead + object->stride)
                column->place = LAYOUT_PADDING;
        } else if (masks->free & 1u << i) {
            *column = (struct layout_column){object->lead, way->stride, (uint16_t)element, false,
                                             LAYOUT_FREE};
        }
    }
}

/* As many objects as fit with their arrays behind them, and the arrays' offsets. */
static bool columns_fill(const struct columns_object *object, uint32_t slab,
                         const struct columns_masks *masks, struct columns_way *way)
{
    uint32_t room = slab - object->lead, most = room / way->stride, each = way->stride, n;
    uint32_t offset[LAYOUT_COLUMNS];

    if (most > STOOK_SLAB_OBJECTS_MAX)
        most = STOOK_SLAB_OBJECTS_MAX;
    for (unsigned i = 0; i < LAYOUT_COLUMNS; i++)
        if (masks->behind & 1u << i)
            each += object->element[i];
    n = room / each < most ? room / each : most;
    while (n > 0 &&
           columns_pack(object, masks->behind, object->lead + n * way->stride, n, offset) > slab)
        n--; /* gaps between the arrays */
    if (n == 0)
        return false;
    way->objects = n;
    way->unused = room - n * each; /* gaps too */
    for (unsigned i = 0; i < LAYOUT_COLUMNS; i++)
        if (masks->behind & 1u << i)
            way->column[i] =
                (struct layout_column){offset[i], object->element[i], object->element[i], false,
                                       (uint8_t)(n == most ? LAYOUT_LEFTOVER : LAYOUT_DEDICATED)};
    return true;
}

static void columns_place_outside(const struct columns_object *object,
                                  const struct columns_masks *masks, struct columns_way *way)
{
    uint32_t offset[LAYOUT_COLUMNS];

    way->meta_base = LAYOUT_DESCRIPTOR + object->link_outside * way->objects;
    way->meta =
        columns_pack(object, masks->outside & ~object->last, way->meta_base, way->objects, offset);
    way->meta =
        columns_pack(object, masks->outside & object->last, way->meta, way->objects, offset);
    for (unsigned i = 0; i < LAYOUT_COLUMNS; i++)
        if (masks->outside & 1u << i)
            way->column[i] = (struct layout_column){offset[i], object->element[i],
                                                    object->element[i], true, LAYOUT_OUTSIDE};
}

static bool columns_allowed(const struct columns_bounds *bounds, const struct columns_masks *masks,
                            const struct columns_way *way)
{
    if (bounds->meta && masks->outside && way->meta > bounds->meta)
        return false;
    if (bounds->stride && way->stride != bounds->stride)
        return false;
    return !bounds->objects || way->objects == bounds->objects;
}

static bool columns_better(uint32_t slab, const struct columns_way *way,
                           const struct columns_way *best)
{
    uint64_t bytes = ((uint64_t)slab + way->meta) * best->objects;
    uint64_t least = ((uint64_t)slab + best->meta) * way->objects;

    if (bytes != least)
        return bytes < least;
    for (unsigned i = 0; i < LAYOUT_COLUMNS; i++)
        if (way->column[i].place != best->column[i].place)
            return way->column[i].place < best->column[i].place;
    return false;
}

/* The next choice of one place a column; false after the last. */
static bool columns_next(const struct columns_object *object, uint8_t where[LAYOUT_COLUMNS])
{
    for (unsigned i = 0; i < LAYOUT_COLUMNS; i++) {
        if (!object->element[i])
            continue;
        do
            where[i] = where[i] ? (uint8_t)(where[i] << 1) : 1;
        while (where[i] <= COLUMNS_FREE && !(where[i] & object->where[i]));
        if (where[i] <= COLUMNS_FREE)
            return true;
        where[i] = (uint8_t)(object->where[i] & -object->where[i]); /* and the next column's */
    }
    return false;
}

bool columns_best(const struct columns_object *object, uint32_t slab,
                  const struct columns_bounds *bounds, struct columns_way *best)
{
    uint8_t where[LAYOUT_COLUMNS] = {0};
    bool found = false;

    for (unsigned i = 0; i < LAYOUT_COLUMNS; i++)
        if (object->element[i])
            where[i] = (uint8_t)(object->where[i] & -object->where[i]);
    do {
        struct columns_masks masks = {0};
        struct columns_way way = {0};
        for (unsigned i = 0; i < LAYOUT_COLUMNS; i++) {
            masks.inside |= where[i] == COLUMNS_INSIDE ? 1u << i : 0;
            masks.behind |= where[i] == COLUMNS_BEHIND ? 1u << i : 0;
            masks.outside |= where[i] == COLUMNS_OUTSIDE ? 1u << i : 0;
            masks.free |= where[i] == COLUMNS_FREE ? 1u << i : 0;
        }
        memcpy(way.where, where, sizeof(where));
        columns_stride(object, &masks, &way);
        if (!columns_fill(object, slab, &masks, &way))
            continue;
        columns_place_outside(object, &masks, &way);
        if (columns_allowed(bounds, &masks, &way) && (!found || columns_better(slab, &way, best))) {
            *best = way;
            found = true;
        }
    } while (columns_next(object, where));
    return found;
}
