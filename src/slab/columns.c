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

/* The columns of a choice that have this place, as bits. */
static unsigned columns_of(const uint8_t where[LAYOUT_COLUMNS], unsigned place)
{
    unsigned mask = 0;

    for (unsigned i = 0; i < LAYOUT_COLUMNS; i++)
        mask |= where[i] == place ? 1u << i : 0;
    return mask;
}

/* Packs columns from `at` on, as arrays of n elements; where they end. */
static uint32_t columns_put(const struct columns_object *object, struct columns_plan *plan,
                            unsigned mask, uint32_t at, uint32_t n, enum layout_place place)
{
    uint32_t offset[LAYOUT_COLUMNS];
    uint32_t end = mask ? columns_pack(object, mask, at, n, offset) : at;

    for (unsigned i = 0; mask >> i; i++)
        if (mask & 1u << i)
            plan->column[i] =
                (struct layout_column){offset[i], object->element[i], object->element[i],
                                       place == LAYOUT_OUTSIDE, (uint8_t)place};
    return end;
}

/* The stride, with the columns inside it. */
static void columns_stride(const struct columns_object *object, struct columns_plan *plan)
{
    unsigned inside = columns_of(plan->where, COLUMNS_INSIDE);
    unsigned free = columns_of(plan->where, COLUMNS_FREE);
    uint32_t align = object->align, end;

    plan->stride = object->stride;
    if (!(inside | free))
        return;
    for (unsigned i = 0; i < LAYOUT_COLUMNS; i++)
        if (inside & 1u << i && layout_element_align(object->element[i]) > align)
            align = layout_element_align(object->element[i]);
    /* From the slab's start, as elements are aligned: the lead may be a multiple of less. */
    end = columns_put(object, plan, inside, object->lead + object->used, 1, LAYOUT_DEDICATED) -
          object->lead;
    /* What fits into padding is shorter than the alignment, so that is a multiple of its own. */
    if (inside && end > plan->stride)
        plan->stride = columns_round(end, align);
    columns_put(object, plan, free, object->lead, 1, LAYOUT_FREE);
    for (unsigned i = 0; i < LAYOUT_COLUMNS; i++) {
        struct layout_column *column = &plan->column[i];
        if ((inside | free) & 1u << i)
            column->stride = plan->stride;
        if (inside & 1u << i && column->offset + column->element <= object->lead + object->stride)
            column->place = LAYOUT_PADDING;
    }
}

/* As many objects as fit with their arrays behind them; false: none. */
static bool columns_fill(const struct columns_object *object, uint32_t slab,
                         struct columns_plan *plan)
{
    unsigned behind = columns_of(plan->where, COLUMNS_BEHIND);
    uint32_t room = slab - object->lead, most = room / plan->stride, each = plan->stride, n;

    if (most > STOOK_SLAB_OBJECTS_MAX)
        most = STOOK_SLAB_OBJECTS_MAX;
    for (unsigned i = 0; behind >> i; i++)
        if (behind & 1u << i)
            each += object->element[i];
    n = room / each < most ? room / each : most;
    while (n > 0 && columns_put(object, plan, behind, object->lead + n * plan->stride, n,
                                n == most ? LAYOUT_LEFTOVER : LAYOUT_DEDICATED) > slab)
        n--; /* gaps between the arrays */
    plan->objects = n;
    plan->unused = room - n * each; /* gaps too */
    return n > 0;
}

/* The plan of a choice of places; false: it does not fit, or not keep to the bounds. */
static bool columns_try(const struct columns_object *object, uint32_t slab,
                        const struct columns_bounds *bounds, struct columns_plan *plan)
{
    unsigned outside = columns_of(plan->where, COLUMNS_OUTSIDE);

    columns_stride(object, plan);
    if (!columns_fill(object, slab, plan))
        return false;
    plan->meta = columns_put(object, plan, outside & ~object->last,
                             LAYOUT_DESCRIPTOR + object->link_outside * plan->objects,
                             plan->objects, LAYOUT_OUTSIDE);
    plan->meta = columns_put(object, plan, outside & object->last, plan->meta, plan->objects,
                             LAYOUT_OUTSIDE);
    return (!bounds->meta || !outside || plan->meta <= bounds->meta) &&
           (!bounds->stride || plan->stride == bounds->stride) &&
           (!bounds->objects || plan->objects == bounds->objects);
}

static bool columns_better(uint32_t slab, const struct columns_plan *plan,
                           const struct columns_plan *best)
{
    uint64_t bytes = ((uint64_t)slab + plan->meta) * best->objects;
    uint64_t least = ((uint64_t)slab + best->meta) * plan->objects;

    if (bytes != least)
        return bytes < least;
    for (unsigned i = 0; i < LAYOUT_COLUMNS; i++)
        if (plan->column[i].place != best->column[i].place)
            return plan->column[i].place < best->column[i].place;
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
                  const struct columns_bounds *bounds, struct columns_plan *best)
{
    uint8_t where[LAYOUT_COLUMNS] = {0};
    bool found = false;

    for (unsigned i = 0; i < LAYOUT_COLUMNS; i++)
        if (object->element[i])
            where[i] = (uint8_t)(object->where[i] & -object->where[i]);
    do {
        struct columns_plan plan = {0};
        memcpy(plan.where, where, sizeof(where));
        if (columns_try(object, slab, bounds, &plan) &&
            (!found || columns_better(slab, &plan, best))) {
            *best = plan;
            found = true;
        }
    } while (columns_next(object, where));
    return found;
}
