/* SPDX-License-Identifier: MIT */
/*
 * The planner over all sizes and alignments, against its definition.
 */
/* modes: default */
#include "slab/layout.h"

#include "page/pagemap.h"
#include "support/random.h"
#include "support/test.h"

#include <stook/stook.h>

/* Sanitizers look at what few sizes do as well. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { STEP = 97 };
#else
enum { STEP = 1 };
#endif

/* Objects that a slab needs to be worth its descriptor, as the planner's comment says. */
static unsigned wanted(uint32_t stride)
{
    return stride <= 1024 ? 32 : stride <= 2048 ? 16 : stride <= 4096 ? 8 : 4;
}

static unsigned objects_of(unsigned order, uint32_t stride)
{
    return (4096u << order) / stride;
}

/* The largest order that may be chosen: what no block holds has the least that holds it. */
static unsigned most(size_t size, uint32_t stride)
{
    unsigned order = size > LAYOUT_COMMON_MAX ? LAYOUT_ORDER_BLOCK : LAYOUT_ORDER_BLOCK - 1;

    while (objects_of(order, stride) == 0)
        order++;
    return order;
}

/* What must hold of every layout.  Plain ifs: this runs half a million times. */
static const char *violated(const struct layout *l, size_t size, size_t align, bool writable)
{
    uint32_t slab = (uint32_t)PAGE_SIZE << l->order;
    unsigned order_max = most(size, l->stride);
    bool possible = false, reached;

    if (l->stride < size || l->stride % align != 0)
        return "the stride";
    if (l->objects == 0 || l->objects > STOOK_SLAB_OBJECTS_MAX || l->min_objects == 0)
        return "the objects";
    if (l->order > order_max || l->min_order > l->order || order_max > LAYOUT_ORDER_MAX)
        return "the orders";
    if (l->objects != objects_of(l->order, l->stride) ||
        l->min_objects != objects_of(l->min_order, l->stride))
        return "objects of an order";
    if (l->min_order > 0 && objects_of(l->min_order - 1u, l->stride) > 0)
        return "the minimum order is not the least";
    if (l->waste != slab - l->objects * l->stride)
        return "the waste";
    for (unsigned order = l->min_order; order <= order_max; order++) {
        uint32_t bytes = 4096u << order, n = objects_of(order, l->stride);
        if (n >= wanted(l->stride) && bytes - n * l->stride <= bytes / 16)
            possible = true;
    }
    reached = l->waste <= slab / 16 && l->objects >= wanted(l->stride);
    if (possible && !reached)
        return "waste beyond 1/16 though some order has less";
    for (unsigned order = l->min_order; !possible && order <= order_max; order++) {
        uint32_t bytes = 4096u << order, waste = bytes - objects_of(order, l->stride) * l->stride;
        if ((uint64_t)waste * 65536 / bytes + 2 < (uint64_t)l->waste * 65536 / slab)
            return "another order wastes less";
    }
    if (l->link_outside) {
        if (l->link_stride != 2 || l->link_offset != LAYOUT_DESCRIPTOR)
            return "links outside";
    } else {
        if (l->link_stride != l->stride || l->link_offset % 2 != 0 || l->stride % 2 != 0)
            return "links at odd addresses";
        if (l->link_offset + 2 > l->stride)
            return "a link in the next object";
        if (!writable)
            return "a constructed object's link inside";
        if (l->stride >= LAYOUT_LINK_MIN)
            return "a large object's link inside";
    }
    return NULL;
}

TEST(every_size)
{
    for (size_t align = 1; align <= STOOK_ALIGN_MAX; align *= 2) {
        for (size_t size = 1; size <= STOOK_OBJECT_SIZE_MAX; size += size < 9000 ? 1
                                                                     : size < LAYOUT_COMMON_MAX
                                                                         ? STEP
                                                                         : 61 * STEP) {
            for (unsigned writable = 0; writable < 2; writable++) {
                struct layout l;
                const char *what;
                if (!layout_plan(&l, size, align, writable))
                    fail_msg("no layout for %zu aligned to %zu", size, align);
                if ((what = violated(&l, size, align, writable)))
                    fail_msg("%zu aligned to %zu, %s: %s", size, align,
                             writable ? "writable" : "constructed", what);
            }
        }
    }
}

/* object index = offset / stride, without a division, for every byte of a slab. */
TEST(index_arithmetic)
{
    uint64_t seed = 3;

    for (size_t size = 1; size <= STOOK_OBJECT_SIZE_MAX; size += size < 600 ? 1 : size / 40) {
        struct layout l;
        assert_true(layout_plan(&l, size, 1 + (size >= 2), LAYOUT_WRITABLE));
        uint32_t slab = (uint32_t)PAGE_SIZE << most(size, l.stride);
        /* Every offset for small strides; for others around every object, and some more. */
        if (size < 64) {
            for (uint32_t offset = 0; offset < slab; offset += STEP)
                if (layout_index(&l, offset) != offset / l.stride)
                    fail_msg("offset %u of stride %u", offset, l.stride);
            continue;
        }
        for (uint32_t at = 0; at < slab; at += STEP * l.stride) {
            assert_int_equal(layout_index(&l, at), at / l.stride);
            assert_int_equal(layout_index(&l, at + l.stride - 1), at / l.stride);
            if (at > 0)
                assert_int_equal(layout_index(&l, at - 1), at / l.stride - 1);
        }
        for (int i = 0; i < 200; i++) {
            uint32_t offset = random_below(&seed, slab);
            assert_int_equal(layout_index(&l, offset), offset / l.stride);
        }
    }
}

/* The multiplication is exact for every stride there can be, at the last byte of each object: also in slabs as large as
 * debugging makes them. */
TEST(index_of_every_stride)
{
    for (uint32_t stride = 8; stride <= STOOK_OBJECT_SIZE_MAX + 2 * STOOK_ALIGN_MAX;
         stride += stride < LAYOUT_COMMON_MAX ? STEP : 61 * STEP) {
        struct layout l = {.reciprocal =
                               (((uint64_t)1 << LAYOUT_RECIPROCAL) + stride - 1) / stride};
        unsigned order = stride > BLOCK_SIZE ? LAYOUT_ORDER_MAX : LAYOUT_ORDER_BLOCK;
        uint32_t last = ((uint32_t)PAGE_SIZE << order) / stride;
        for (uint32_t k = last > 3 ? last - 3 : 0; k <= last; k++) {
            if (k * stride < (uint32_t)PAGE_SIZE << order && layout_index(&l, k * stride) != k)
                fail_msg("object %u of stride %u", k, stride);
            if (k > 0 && layout_index(&l, k * stride - 1) != k - 1)
                fail_msg("the end of object %u of stride %u", k - 1, stride);
        }
    }
}

TEST(refusals)
{
    struct layout l;

    assert_false(layout_plan(&l, 0, 8, LAYOUT_WRITABLE));
    assert_false(layout_plan(&l, STOOK_OBJECT_SIZE_MAX + 1, 8, LAYOUT_WRITABLE));
    assert_false(layout_plan(&l, SIZE_MAX, 8, LAYOUT_WRITABLE)); /* and does not wrap */
    assert_false(layout_plan(&l, SIZE_MAX - 100, 4096, LAYOUT_WRITABLE));
    assert_true(layout_plan(&l, STOOK_OBJECT_SIZE_MAX, STOOK_ALIGN_MAX, LAYOUT_WRITABLE));
}

TEST(examples)
{
    struct layout l;

    assert_true(layout_plan(&l, 256, 16, LAYOUT_WRITABLE));
    assert_true(l.objects >= 32);
    assert_int_equal(l.waste, 0);
    assert_true(l.link_outside);
    assert_true(layout_plan(&l, 1, 1, LAYOUT_WRITABLE)); /* no more objects than a slab can count */
    assert_int_equal(l.stride, 8);
    assert_true(layout_plan(&l, 4096, 4096, LAYOUT_WRITABLE));
    assert_int_equal(l.objects, 32);
    assert_int_equal(l.min_order, 0);
    assert_true(layout_plan(&l, LAYOUT_COMMON_MAX, 16, LAYOUT_WRITABLE));
    assert_int_equal(l.order, 8);
    assert_int_equal(l.objects, 4);
    assert_int_equal(l.min_objects, 1);
    for (size_t size = (2 << 20) - (16 << 10); size <= STOOK_OBJECT_SIZE_MAX; size += 16 << 10) {
        assert_true(layout_plan(&l, size, 16, LAYOUT_WRITABLE)); /* one object, however large */
        assert_int_equal(l.order, size <= BLOCK_SIZE ? 9 : 10);
        assert_int_equal(l.objects, 1);
        assert_int_equal(l.min_order, l.order);
    }
    for (unsigned size = 12; size <= 64;
         size += 52) { /* constructed: links outside, also of tiny ones */
        assert_true(layout_plan(&l, size, 4, 0));
        assert_int_equal(l.stride, size);
        assert_int_equal(layout_meta(&l, false, true), LAYOUT_DESCRIPTOR + 2u * l.objects);
    }
}

/* Columns: the examples of docs/columns.md, and the descriptions for readers. */
TEST(columns)
{
    struct layout_request r = {.size = 992, .align = 64, .wishes = LAYOUT_WRITABLE};
    struct layout l, plain;
    struct layout_column column;

    r.element[LAYOUT_LINK] = LAYOUT_LINK_SIZE;
    assert_true(layout_plan_columns(&plain, &r));
    assert_int_equal(plain.room, 1024);
    r.element[LAYOUT_GROUP] = r.element[LAYOUT_TAG] = 8;
    assert_true(layout_plan_columns(&l, &r));
    assert_int_equal(l.order, plain.order);
    assert_int_equal(l.objects, plain.objects);
    assert_int_equal(layout_meta(&l, false, true), layout_meta(&plain, false, true));
    assert_int_equal(l.room, 992); /* what an object's user may write to has become less */
    assert_true(l.link_outside && l.link_offset == LAYOUT_DESCRIPTOR && l.link_stride == 2);
    for (unsigned min = 0; min < 2; min++) {
        column = l.column[min][LAYOUT_TAG];
        assert_int_equal(column.place, LAYOUT_PADDING);
        assert_false(column.outside);
        assert_int_equal(column.offset, 1000);
        assert_int_equal(column.stride, 1024);
    }
    r.wishes |= LAYOUT_COLUMNS_OUTSIDE;
    assert_true(layout_plan_columns(&l, &r));
    assert_int_equal(l.room, 1024);
    for (unsigned min = 0; min < 2; min++) { /* behind the links, in slabs of either order */
        unsigned objects = min ? l.min_objects : l.objects;
        column = l.column[min][LAYOUT_GROUP];
        assert_true(column.outside && column.stride == 8);
        assert_int_equal(column.offset, (LAYOUT_DESCRIPTOR + 2 * objects + 7) / 8 * 8);
        assert_int_equal(l.column[min][LAYOUT_TAG].offset, column.offset + 8 * objects);
        assert_int_equal(layout_meta(&l, min, true), column.offset + 16 * objects);
        assert_int_equal(layout_meta(&l, min, false), column.offset + 8 * objects);
    }
    r.element[LAYOUT_GROUP] = 7;
    assert_false(layout_plan_columns(&l, &r)); /* elements are even, links have two bytes, */
    r.element[LAYOUT_GROUP] = 8;
    r.element[LAYOUT_LINK] = 4;
    assert_false(layout_plan_columns(&l, &r));
    r.element[LAYOUT_LINK] = 0;
    r.align = 48;
    assert_false(layout_plan_columns(&l, &r)); /* alignments are powers of two, */
    r.align = 64;
    r.page_shift = 11;
    assert_false(layout_plan_columns(&l, &r)); /* pages have 4 KiB at least, */
    r.page_shift = 0;
    r.orders = 1u << 9;
    assert_false(layout_plan_columns(&l, &r)); /* and slabs at most 1 MiB */
}

/* Marks bytes of a slab as taken; false: one was. */
static bool paint(uint8_t *map, size_t bytes, size_t at, size_t n)
{
    for (size_t i = at; i < at + n; i++)
        if (i >= bytes || map[i]++ != 0)
            return false;
    return true;
}

/* With a lead and gaps: objects and what lies among them share no byte, are aligned, and leave lead and gaps free. */
TEST(leads)
{
    static uint8_t map[(size_t)PAGE_SIZE << LAYOUT_ORDER_MAX];
    uint64_t random = 14;

    for (unsigned turn = 0; turn < 3000; turn++) {
        struct layout_request request = {.size = 1 + random_next(&random) % 3000,
                                         .align = (size_t)1 << random_next(&random) % 9,
                                         .gap = random_next(&random) % 2 ? 16 : 0};
        size_t align = request.align < 2 ? 2 : request.align;
        struct layout l;
        request.lead = (uint32_t)((1 + random_next(&random) % 2) * align);
        request.wishes = random_next(&random) % 2 ? LAYOUT_WRITABLE : 0;
        request.wishes |= random_next(&random) % 2 ? LAYOUT_COLUMNS_OUTSIDE : 0;
        request.wishes |= random_next(&random) % 2 ? LAYOUT_LINK_INSIDE : 0;
        request.element[LAYOUT_LINK] = LAYOUT_LINK_SIZE;
        request.element[LAYOUT_GROUP] = random_next(&random) % 2 ? 8 : 0;
        request.element[LAYOUT_TAG] = 8;
        request.later = 1u << LAYOUT_TAG;
        assert_true(layout_plan_columns(&l, &request));
        assert_true(l.lead == request.lead && l.stride >= request.size + request.gap);
        assert_true(request.gap ? l.room == request.size : l.room >= request.size);
        for (unsigned min = 0; min < 2; min++) {
            size_t bytes = (size_t)PAGE_SIZE << (min ? l.min_order : l.order);
            unsigned objects = layout_slab_objects(&l, min);
            memset(map, 0, bytes);
            assert_true(objects > 0 && paint(map, bytes, 0, l.lead));
            for (unsigned i = 0; i < objects; i++) {
                size_t at = l.lead + (size_t)i * l.stride;
                assert_int_equal(at % align, 0);
                assert_true(paint(map, bytes, at, request.size + request.gap));
                for (unsigned which = 0; which < LAYOUT_COLUMNS; which++) {
                    struct layout_column column = l.column[min][which];
                    size_t element = column.offset + (size_t)i * column.stride;
                    if (column.element == 0 || column.outside)
                        continue;
                    assert_int_equal(element % layout_element_align(column.element), 0);
                    if (column.place == LAYOUT_FREE)
                        assert_int_equal(element, at);
                    else
                        assert_true(paint(map, bytes, element, column.element));
                }
            }
        }
    }
}

/* A column that may never come is behind those that are there: until it comes, slabs are as if it were not planned. */
TEST(later_is_last)
{
    for (size_t size = 8; size <= 4096; size += 8) {
        struct layout_request request = {.size = size,
                                         .align = 8,
                                         .wishes = LAYOUT_WRITABLE | LAYOUT_LINK_OUTSIDE |
                                                   LAYOUT_COLUMNS_OUTSIDE};
        struct layout with, without;
        request.element[LAYOUT_LINK] = LAYOUT_LINK_SIZE;
        request.element[LAYOUT_TRACK] = 2;
        assert_true(layout_plan_columns(&without, &request));
        request.element[LAYOUT_TAG] = 8;
        request.later = 1u << LAYOUT_TAG;
        assert_true(layout_plan_columns(&with, &request));
        assert_int_equal(with.objects, without.objects);
        for (unsigned min = 0; min < 2; min++) {
            size_t least = layout_meta(&without, min, false);
            assert_int_equal(layout_meta(&with, min, false), least);
            assert_in_range(layout_meta(&with, min, true),
                            least + 8u * layout_slab_objects(&with, min),
                            least + 8u * layout_slab_objects(&with, min) + 7);
        }
    }
}

TEST(capacities)
{
    unsigned last = STOOK_SHEAF_CAPACITY_MAX;

    for (size_t stride = 8; stride <= LAYOUT_COMMON_MAX; stride += 8) {
        unsigned capacity = layout_capacity(stride);
        assert_true(capacity >= 6 && capacity <= last); /* falls as objects grow */
        assert_true(capacity == 6 || capacity * stride <= 56 << 10);
        last = capacity;
    }
    assert_true(layout_capacity(256) >= 60 && layout_capacity(256) <= 134);
}
