/* SPDX-License-Identifier: MIT */
#include "slab/layout.h"

#include "page/pagemap.h"

#include <stook/stook.h>

enum {
    LAYOUT_WASTE = 16,       /* a slab wastes at most 1/16 where possible */
    LAYOUT_SHARE = 65536,    /* waste is weighed in these parts of a slab … */
    LAYOUT_PER_ORDER = 64,   /* … and an order is worth 0.1 %: small slabs go back sooner */
    LAYOUT_LINK_CTOR = 16,   /* smaller constructed objects have room for a link behind them */
    LAYOUT_ORDER_COMMON = 5, /* higher orders only against waste beyond LAYOUT_WASTE */
};

/*
 * Fewer objects than this make a slab too dear: what its making and its going cost is shared by
 * them.  What 64 KiB hold at most, 128 KiB of large ones.
 */
static unsigned layout_wanted(uint32_t stride, bool dense)
{
    unsigned most;

    if (dense)
        return stride <= 1024 ? 32 : stride <= 2048 ? 16 : stride <= PAGE_SIZE ? 8 : 4;
    most = (stride <= 1024 ? 64u << 10 : 128u << 10) / stride;
    return most > 256 ? 256 : most >= 128 ? 128 : most > 4 ? most : 4;
}

static unsigned layout_objects(unsigned order, uint32_t stride)
{
    uint32_t n = ((uint32_t)PAGE_SIZE << order) / stride;

    return n < STOOK_SLAB_OBJECTS_MAX ? n : STOOK_SLAB_OBJECTS_MAX;
}

/* The order's cost, or ~0 where it does not do. */
static uint32_t layout_cost(unsigned order, uint32_t stride, bool dense)
{
    uint32_t size = (uint32_t)PAGE_SIZE << order, n = layout_objects(order, stride);
    uint32_t waste = size - n * stride;

    if (n < layout_wanted(stride, dense) || waste > size / LAYOUT_WASTE)
        return ~(uint32_t)0;
    return (uint32_t)((uint64_t)waste * LAYOUT_SHARE / size) + order * LAYOUT_PER_ORDER;
}

static void layout_choose_order(struct layout *layout, bool dense)
{
    uint32_t best_cost = ~(uint32_t)0, stride = layout->stride;
    unsigned best = 0, min = 0;

    while (layout_objects(min, stride) == 0)
        min++;
    for (unsigned order = min; order <= LAYOUT_ORDER_MAX; order++) {
        uint32_t cost = layout_cost(order, stride, dense);
        if (cost < best_cost) {
            best = order;
            best_cost = cost;
        }
        if (order >= (unsigned)LAYOUT_ORDER_COMMON - dense && best_cost != ~(uint32_t)0)
            break;
    }
    for (unsigned order = min, least = ~0u; best_cost == ~(uint32_t)0 && order <= LAYOUT_ORDER_MAX;
         order++) { /* none wastes so little: the least there is */
        uint32_t size = (uint32_t)PAGE_SIZE << order;
        unsigned share = (size - layout_objects(order, stride) * stride) * 64u / (size / 1024);
        if (share < least) {
            least = share;
            best = order;
        }
    }
    layout->order = (uint8_t)best;
    layout->min_order = (uint8_t)min;
    layout->objects = (uint16_t)layout_objects(best, stride);
    layout->min_objects = (uint16_t)layout_objects(min, stride);
    layout->waste = ((uint32_t)PAGE_SIZE << best) - layout->objects * stride;
}

static bool layout_wants_outside(size_t stride, unsigned wishes)
{
    if (wishes & LAYOUT_LINK_OUTSIDE)
        return true;
    if (!(wishes & LAYOUT_WRITABLE))
        return stride >= LAYOUT_LINK_CTOR;
    return !(wishes & LAYOUT_LINK_INSIDE) && stride >= LAYOUT_LINK_MIN;
}

bool layout_plan(struct layout *layout, size_t size, size_t align, unsigned wishes)
{
    size_t stride;

    if (size == 0 || size > STOOK_OBJECT_SIZE_MAX)
        return false;
    if (align < 2) /* links inside lie at even addresses */
        align = 2;
    stride = (size + align - 1) & ~(align - 1);
    if (stride > STOOK_OBJECT_SIZE_MAX)
        return false;
    if (stride < 8) /* smaller ones would make more objects than a slab can count */
        stride = 8;
    layout->link_outside = layout_wants_outside(stride, wishes);
    layout->link_stride = layout->link_outside ? 2 : (uint32_t)stride;
    layout->link_offset = layout->link_outside ? LAYOUT_DESCRIPTOR : 0;
    if (!layout->link_outside && !(wishes & LAYOUT_WRITABLE)) {
        /* Tiny constructed objects: the link lies behind each. */
        layout->link_offset = (uint32_t)((size + 1) & ~(size_t)1);
        stride = (layout->link_offset + 2 + align - 1) & ~(align - 1);
        layout->link_stride = (uint32_t)stride;
    }
    layout->stride = (uint32_t)stride;
    layout->reciprocal = (((uint64_t)1 << LAYOUT_RECIPROCAL) + stride - 1) / stride;
    layout_choose_order(layout, wishes & LAYOUT_DENSE);
    return layout->objects > 0;
}

unsigned layout_capacity(size_t stride)
{
    /* Bursts of 128, 64 and 32 fit, and a few more; with their header whole cache lines.  Large
     * objects get a little more memory, or a sheaf would not be worth its barn's lock. */
    static const struct {
        unsigned capacity, kib;
    } sheaf[] = {{134, 40}, {70, 40}, {38, 40}, {22, 48}, {14, 56}};

    for (unsigned i = 0; i < sizeof(sheaf) / sizeof(sheaf[0]); i++)
        if (sheaf[i].capacity * stride <= sheaf[i].kib << 10)
            return sheaf[i].capacity;
    return 6;
}
