/* SPDX-License-Identifier: MIT */
/*
 * layout.h - from an object's size and alignment to the layout of a slab.  Pure functions.
 *
 * What is kept about each object lies in columns: element i of a column is at base + offset +
 * i * stride, where the base is the slab's descriptor (outside) or its first page.  A reader of a column
 * knows no more of its place.  docs/columns.md has the places and what is weighed.
 */
#ifndef STOOK_SLAB_LAYOUT_H
#define STOOK_SLAB_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    LAYOUT_ORDER_MAX =
        11, /* 8 MiB, four blocks: one object that no block holds, as debugging lays it out */
    LAYOUT_ORDER_BLOCK = 9, /* objects beyond LAYOUT_COMMON_MAX; others have one less */
    LAYOUT_COMMON_MAX = 256 << 10,
    LAYOUT_RECIPROCAL = 46, /* object index = offset * reciprocal >> 46, exact to 2^23 * 2^23 */
    LAYOUT_DESCRIPTOR = 32, /* sizeof(struct slab); outside columns follow it */
    LAYOUT_LINK_MIN = 48,   /* strides below keep their links inside: outside costs over 4 % */
    LAYOUT_LINK_SIZE = 2,
    LAYOUT_MARK_SIZE = 1,
    LAYOUT_ELEMENT_MAX = 4096, /* bytes of a column's element, which are even */
};

/*
 * Hardening: links are stored xor the cache's secret and their place, and checked against the slab's
 * bounds when they are followed.  Each object has a mark that says whether it is out of its slab
 * (slab/mark.h).  A build without it (-DSTOOK_ENCODED_LINKS=OFF) has neither, and is for measuring their
 * cost (bench/hardening.py).
 */
#ifndef STOOK_ENCODED
#define STOOK_ENCODED 1
#endif

/* In the order in which they choose among places that cost the same.  CONTRIBUTING.md says how to add
 * one; groups and tags stay the first two. */
enum layout_which {
    LAYOUT_GROUP, /* the group that is charged for the object */
    LAYOUT_TAG,   /* where it was allocated */
    LAYOUT_TRACK, /* what debugging keeps, or a quarantine */
    LAYOUT_LINK,  /* of a free object: the index of the next one */
    LAYOUT_COLUMNS,
};

/* In the order of preference among places that cost the same. */
enum layout_place {
    LAYOUT_NOWHERE,
    LAYOUT_PADDING,   /* between an object's end and the start of the next */
    LAYOUT_LEFTOVER,  /* behind the last object, where no further one fits */
    LAYOUT_OUTSIDE,   /* behind the slab's descriptor */
    LAYOUT_FREE,      /* links: in the free objects */
    LAYOUT_DEDICATED, /* bytes taken from the objects: a larger stride, or an object fewer */
};

struct layout_column {
    uint32_t offset, stride;
    uint16_t element; /* bytes; 0: there is no such column */
    bool outside;     /* offset from the descriptor, not from the first page */
    uint8_t place;    /* of enum layout_place: for people, readers need none */
};

struct layout {
    uint64_t reciprocal;
    uint32_t stride;
    uint32_t link_stride; /* as in column[][LAYOUT_LINK], but with LAYOUT_BYTES */
    uint32_t link_offset;
    bool link_outside;
    uint8_t order, min_order;
    uint8_t marks; /* bytes an object right behind the descriptor: 1 where links lie in free
                           * objects; else 0, for the links are the marks */
    uint16_t objects,
        min_objects; /* in a slab of order, of min_order: the same only if these are */
    uint32_t waste;  /* bytes of a slab that neither objects nor columns use */
    uint32_t room;   /* of an object's stride, what its user may write to */
    uint32_t lead;   /* bytes of a slab before its first object; 0 except in debug caches */
    struct layout_column column[2][LAYOUT_COLUMNS]; /* in slabs of order, of min_order */
};

enum layout_wish {
    LAYOUT_WRITABLE = 1,     /* a free object may be written to: not constructed, nor type-stable */
    LAYOUT_LINK_INSIDE = 2,  /* links in the free objects, where they may be written to */
    LAYOUT_LINK_OUTSIDE = 4, /* links outside, whatever that costs in bytes */
    LAYOUT_DENSE = 8,        /* small slabs, that empty sooner: one of many caches */
    /* For people who compare: */
    LAYOUT_BYTES = 16, /* links where they cost fewest bytes, however slow they are */
    LAYOUT_COLUMNS_OUTSIDE =
        64,                /* other columns outside, whatever that costs (LAYOUT_BYTES: all) */
    LAYOUT_META_ANY = 128, /* columns outside even beyond what a block has room for */
};

struct layout_request {
    size_t size, align;  /* of an object; align a power of two */
    uint32_t gap;        /* bytes at least behind each object that no user has */
    uint32_t lead;       /* bytes of a slab before its first object: a multiple of align */
    unsigned wishes;     /* of enum layout_wish; without one for links the faster place */
    unsigned page_shift; /* 0: PAGE_SHIFT; 12 to 20 */
    unsigned orders;     /* bit n: order n may be preferred; 0: all */
    uint16_t element[LAYOUT_COLUMNS]; /* bytes of each column that is wanted; 0: it is not */
    unsigned later; /* bit n: column n may never come, and changes neither strides nor objects */
};

/* False: none fits, or a column's elements have no possible size. */
bool layout_plan_columns(struct layout *layout, const struct layout_request *request);
/* Links and no further columns. */
bool layout_plan(struct layout *layout, size_t size, size_t align, unsigned wishes);

/* `offset` is from the slab's first object, which lies layout->lead behind the slab's start. */
static inline uint32_t layout_index(const struct layout *layout, uint32_t offset)
{
    return (uint32_t)(offset * layout->reciprocal >> LAYOUT_RECIPROCAL);
}

/* Whether one of a slab's objects begins `offset` bytes behind its first one: which. */
static inline bool layout_starts(const struct layout *layout, uint32_t offset, uint32_t objects,
                                 uint32_t *index)
{
    *index = layout_index(layout, offset);
    return *index * layout->stride == offset && *index < objects;
}

/* Elements lie at multiples of the largest power of two that divides their size, up to this. */
enum { LAYOUT_ELEMENT_ALIGN = 8 };

static inline uint32_t layout_element_align(uint32_t element)
{
    uint32_t align = element & -element;

    return align < LAYOUT_ELEMENT_ALIGN ? align : LAYOUT_ELEMENT_ALIGN;
}

/* In slabs of the preferred or of the minimum order. */
static inline unsigned layout_slab_objects(const struct layout *layout, bool min)
{
    return min ? layout->min_objects : layout->objects;
}

/* Bytes of a slab's descriptor, outside columns included; `tags`: it has those, which come last. */
size_t layout_meta(const struct layout *layout, bool min, bool tags);

/* Objects a sheaf: what fits about 40 KiB, between 6 and 134. */
unsigned layout_capacity(size_t stride);

#endif
