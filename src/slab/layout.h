/* SPDX-License-Identifier: MIT */
/*
 * layout.h - from an object's size and alignment to the layout of a slab.  Pure functions.
 *
 * The freelist's links are a column: link i is the 16 bits at base + i * stride, with the base
 * relative to the slab's descriptor (outside) or to its first page (inside the free object, or in
 * bytes behind it).
 */
#ifndef STOOK_SLAB_LAYOUT_H
#define STOOK_SLAB_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    LAYOUT_ORDER_MAX = 8,   /* 1 MiB, the largest run of a block */
    LAYOUT_RECIPROCAL = 40, /* object index = offset * reciprocal >> 40, exact to 2^20 * 2^19 */
    LAYOUT_DESCRIPTOR = 32, /* sizeof(struct slab); outside links follow it */
    LAYOUT_LINK_MIN = 48,   /* strides below keep their links inside: outside costs over 4 % */
};

struct layout {
    uint64_t reciprocal;
    uint32_t stride;
    uint32_t link_stride;
    uint32_t link_offset;
    bool link_outside;
    uint8_t order, min_order;
    uint16_t objects, min_objects; /* in a slab of order, of min_order */
    uint32_t waste;                /* bytes of a slab that no object uses */
};

enum layout_wish {
    LAYOUT_WRITABLE = 1,     /* a free object may be written to: no constructor */
    LAYOUT_LINK_INSIDE = 2,  /* links in the free objects, where they may be written to */
    LAYOUT_LINK_OUTSIDE = 4, /* links outside, whatever that costs in bytes */
    LAYOUT_DENSE = 8,        /* small slabs, that empty sooner: one of many caches */
};

/* `wishes`: of enum layout_wish; without one for links the cheaper place.  False: none fits. */
bool layout_plan(struct layout *layout, size_t size, size_t align, unsigned wishes);

static inline uint32_t layout_index(const struct layout *layout, uint32_t offset)
{
    return (uint32_t)(offset * layout->reciprocal >> LAYOUT_RECIPROCAL);
}

/* Bytes of a slab's descriptor, outside links included. */
static inline size_t layout_meta(const struct layout *layout, unsigned objects)
{
    return LAYOUT_DESCRIPTOR + (layout->link_outside ? 2 * (size_t)objects : 0);
}

/* Objects a sheaf: what fits about 40 KiB, between 6 and 134. */
unsigned layout_capacity(size_t stride);

#endif
