/* SPDX-License-Identifier: MIT */
/*
 * columns.h - for slab/layout.c: the cheapest places of columns in a slab of given bytes.
 */
#ifndef STOOK_SLAB_COLUMNS_H
#define STOOK_SLAB_COLUMNS_H

#include "slab/layout.h"

/* Where a column may be sought. */
enum {
    COLUMNS_INSIDE = 1,  /* in each object's stride, behind the object */
    COLUMNS_BEHIND = 2,  /* an array behind the last object */
    COLUMNS_OUTSIDE = 4, /* an array behind the descriptor */
    COLUMNS_FREE = 8,    /* at the start of a free object */
};

/* An object, with the links that are placed already, and what is wanted about it. */
struct columns_object {
    uint32_t used;         /* bytes of a stride that are taken: columns begin behind them */
    uint32_t stride;       /* without further columns */
    uint32_t align;        /* of the stride; columns can raise it */
    uint32_t lead;         /* bytes of a slab before its first object */
    uint32_t link_outside; /* bytes an object of links, or marks, right behind the descriptor */
    uint16_t element[LAYOUT_COLUMNS];
    uint8_t where[LAYOUT_COLUMNS]; /* of COLUMNS_* */
    unsigned
        last; /* bit n: column n lies behind all others outside, so that slabs can do without */
};

/* What a plan must keep to; 0: no bound. */
struct columns_bounds {
    uint32_t meta; /* bytes of the descriptor and what is outside, if columns are there */
    uint32_t stride, objects; /* exactly */
};

/* One plan of a slab. */
struct columns_plan {
    uint32_t stride, objects;
    uint32_t unused;                             /* bytes of the slab: of no stride, of no array */
    uint32_t meta;                               /* of the descriptor and what is outside */
    struct layout_column column[LAYOUT_COLUMNS]; /* those of columns_object.element */
    uint8_t where[LAYOUT_COLUMNS];               /* COLUMNS_*, or 0 */
};

/*
 * The plan with the fewest bytes an object, descriptor included; among these the first by the places of
 * group, tag, track, link in the order of enum layout_place.  False: none keeps to the bounds.
 */
bool columns_best(const struct columns_object *object, uint32_t slab,
                  const struct columns_bounds *bounds, struct columns_plan *best);

#endif
