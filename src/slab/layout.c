/* SPDX-License-Identifier: MIT */
/*
 * layout.c - chooses the order of a cache's slabs and the places of its columns by their cost in bytes.
 */
#include "slab/layout.h"

#include "page/pagemap.h"
#include "slab/columns.h"

#include <stook/stook.h>

enum {
    LAYOUT_WASTE = 16,       /* a slab wastes at most 1/16 where possible */
    LAYOUT_SHARE = 65536,    /* waste is weighed in these parts of a slab … */
    LAYOUT_PER_ORDER = 64,   /* … and an order is worth 0.1 %: small slabs go back sooner */
    LAYOUT_ORDER_COMMON = 5, /* higher orders only against waste beyond LAYOUT_WASTE */
    LAYOUT_PAGE_MAX = 20,    /* log2 of the largest page there can be */
    LAYOUT_GAP_MAX = 4096,
    LAYOUT_LEAD_MAX = 2 * 4096,
};

/* What is planned, and on which pages. */
struct layout_plan {
    struct columns_object object;
    unsigned wishes, orders, page_shift;
    unsigned order_max, order_common; /* in these pages, as many bytes as in pages of 4 KiB */
    bool waste_unbound;               /* no order keeps to LAYOUT_WASTE and what is wanted */
};

/*
 * Fewer objects than this make a slab too dear, since they share the cost of making and unmaking it.  As many
 * as 64 KiB hold at most, and 128 KiB of large ones.
 */
static unsigned layout_wanted(uint32_t stride, bool dense)
{
    unsigned most;

    if (dense)
        return stride <= 1024 ? 32 : stride <= 2048 ? 16 : stride <= PAGE_SIZE ? 8 : 4;
    most = (stride <= 1024 ? 64u << 10 : 128u << 10) / stride;
    return most > 256 ? 256 : most >= 128 ? 128 : most > 4 ? most : 4;
}

static uint32_t layout_bytes(const struct layout_plan *plan, unsigned order)
{
    return (uint32_t)1 << (plan->page_shift + order);
}

/* The least order that holds an object. */
static unsigned layout_least(const struct layout_plan *plan, uint32_t stride)
{
    unsigned order = 0;

    while (layout_bytes(plan, order) < plan->object.lead + stride)
        order++;
    return order;
}

/* What a block has room for, in proportion: its metadata is shared by its slabs. */
static uint32_t layout_meta_most(const struct layout_plan *plan, uint32_t slab)
{
    if (plan->wishes & (LAYOUT_META_ANY | LAYOUT_COLUMNS_OUTSIDE))
        return 0;
    return (uint32_t)((uint64_t)slab * (BLOCK_META - BLOCK_META / 64) / BLOCK_SIZE);
}

/* The order's cost without columns, or ~0 where it does not do. */
static uint32_t layout_cost(const struct layout_plan *plan, unsigned order)
{
    uint32_t slab = layout_bytes(plan, order), stride = plan->object.stride;
    uint32_t room = slab - plan->object.lead, most = room / stride;
    uint32_t n = most < STOOK_SLAB_OBJECTS_MAX ? most : STOOK_SLAB_OBJECTS_MAX;
    uint32_t waste = room - n * stride;
    uint32_t share = (uint32_t)((uint64_t)waste * LAYOUT_SHARE / slab);

    if (!(plan->orders & 1u << order))
        return ~(uint32_t)0;
    if (plan->waste_unbound)
        return share;
    if (n < layout_wanted(stride, plan->wishes & LAYOUT_DENSE) || waste > slab / LAYOUT_WASTE)
        return ~(uint32_t)0;
    return share + order * LAYOUT_PER_ORDER;
}

/* Without columns; false where no order does. */
static bool layout_choose_order(const struct layout_plan *plan, unsigned *best)
{
    unsigned least = layout_least(plan, plan->object.stride);
    uint32_t best_cost = ~(uint32_t)0;

    /* What no block holds has slabs of one object each. */
    for (unsigned order = least; order == least || order <= plan->order_max; order++) {
        uint32_t cost = layout_cost(plan, order);
        if (cost < best_cost) {
            *best = order;
            best_cost = cost;
        }
        if (!plan->waste_unbound && order >= plan->order_common && best_cost != ~(uint32_t)0)
            break;
    }
    return best_cost != ~(uint32_t)0;
}

/* Links where they are fast: before other columns, and whatever these do.  Where a free object holds
 * its link, a live one has no room for its mark: that lies where links would. */
static void layout_place_links(struct columns_object *object, unsigned wishes,
                               struct layout_column *link)
{
    bool inside = (wishes & LAYOUT_WRITABLE) && !(wishes & LAYOUT_LINK_OUTSIDE) &&
                  ((wishes & LAYOUT_LINK_INSIDE) || object->stride < LAYOUT_LINK_MIN);

    *link =
        (struct layout_column){.offset = inside ? object->lead : LAYOUT_DESCRIPTOR,
                               .stride = LAYOUT_LINK_SIZE, /* inside: what the others make of it */
                               .element = LAYOUT_LINK_SIZE,
                               .outside = !inside,
                               .place = inside ? LAYOUT_FREE : LAYOUT_OUTSIDE};
    object->link_outside = !inside ? LAYOUT_LINK_SIZE : STOOK_ENCODED ? LAYOUT_MARK_SIZE : 0;
    if (inside && object->used < LAYOUT_LINK_SIZE)
        object->used = LAYOUT_LINK_SIZE;
}

/* False: there is no such object or column. */
static bool layout_read(struct layout_plan *plan, const struct layout_request *request,
                        struct layout_column *link)
{
    size_t align = request->align < 2 ? 2 : request->align; /* links lie at even addresses */
    struct columns_object *object = &plan->object;
    unsigned common;
    size_t stride;

    *plan =
        (struct layout_plan){.wishes = request->wishes,
                             .page_shift = request->page_shift ? request->page_shift : PAGE_SHIFT,
                             .orders = request->orders ? request->orders : ~0u};
    if (request->size == 0 || request->size > STOOK_OBJECT_SIZE_MAX ||
        align > STOOK_OBJECT_SIZE_MAX || (align & (align - 1)) || plan->page_shift < PAGE_SHIFT ||
        plan->page_shift > LAYOUT_PAGE_MAX || request->gap > LAYOUT_GAP_MAX ||
        request->lead % align != 0 || request->lead > LAYOUT_LEAD_MAX)
        return false;
    stride = (request->size + request->gap + align - 1) & ~(align - 1);
    plan->order_max =
        LAYOUT_ORDER_BLOCK - (request->size <= LAYOUT_COMMON_MAX) + PAGE_SHIFT - plan->page_shift;
    common = LAYOUT_ORDER_COMMON - !!(plan->wishes & LAYOUT_DENSE) + PAGE_SHIFT;
    plan->order_common = common > plan->page_shift ? common - plan->page_shift : 0;
    object->used = (uint32_t)request->size + request->gap;
    object->lead = request->lead;
    object->align = (uint32_t)align;
    /* Smaller ones would make more objects than a slab can count. */
    object->stride = stride < 8 ? 8 : (uint32_t)stride;
    for (unsigned i = 0; i < LAYOUT_COLUMNS; i++) {
        uint32_t element = request->element[i];
        if (element % 2 != 0 || element > LAYOUT_ELEMENT_MAX)
            return false;
        object->element[i] = request->later & 1u << i ? 0 : (uint16_t)element;
        object->where[i] = plan->wishes & LAYOUT_COLUMNS_OUTSIDE
                               ? COLUMNS_OUTSIDE
                               : COLUMNS_INSIDE | COLUMNS_BEHIND | COLUMNS_OUTSIDE;
    }
    *link = (struct layout_column){0};
    if (request->element[LAYOUT_LINK] == 0)
        return true;
    if (request->element[LAYOUT_LINK] != LAYOUT_LINK_SIZE)
        return false;
    if (!(plan->wishes & LAYOUT_BYTES)) {
        layout_place_links(object, plan->wishes, link);
        object->element[LAYOUT_LINK] = 0;
    } else if (plan->wishes & LAYOUT_WRITABLE && !(plan->wishes & LAYOUT_COLUMNS_OUTSIDE)) {
        object->where[LAYOUT_LINK] |= COLUMNS_FREE;
        if (object->used < LAYOUT_LINK_SIZE)
            object->used = LAYOUT_LINK_SIZE;
    }
    return true;
}

/* The columns that may come later: into the plan of the others. */
static void layout_place_later(struct layout_plan *plan, const struct layout_request *request,
                               uint32_t slab, struct columns_plan *chosen)
{
    struct columns_bounds bounds = {
        .meta = layout_meta_most(plan, slab), .stride = chosen->stride, .objects = chosen->objects};
    struct columns_object *object = &plan->object;

    for (unsigned i = 0; i < LAYOUT_COLUMNS; i++)
        if (request->later & 1u << i)
            object->element[i] = request->element[i];
        else
            object->where[i] = chosen->where[i];
    object->last = request->later;
    if (!columns_best(object, slab, &bounds, chosen)) {
        bounds.meta = 0; /* a block with few such slabs, then: it is asked for */
        columns_best(object, slab, &bounds, chosen);
    }
}

/* Slabs of the minimum order: the same strides, and arrays where they do best there.  What it is. */
static unsigned layout_plan_least(struct layout_plan *plan, unsigned order,
                                  const struct columns_plan *chosen, struct columns_plan *least)
{
    struct columns_bounds bounds = {.stride = chosen->stride};
    unsigned min_order = layout_least(plan, chosen->stride);

    for (unsigned i = 0; i < LAYOUT_COLUMNS; i++)
        if (chosen->where[i] & (COLUMNS_INSIDE | COLUMNS_FREE))
            plan->object.where[i] = chosen->where[i];
        else
            plan->object.where[i] &= COLUMNS_BEHIND | COLUMNS_OUTSIDE;
    if (min_order < order &&
        columns_best(&plan->object, layout_bytes(plan, min_order), &bounds, least) &&
        least->objects < chosen->objects)
        return min_order;
    *least = *chosen;
    return order;
}

static void layout_set_columns(struct layout *layout, const struct columns_plan plans[2],
                               struct layout_column *link)
{
    if (!link->outside)
        link->stride = layout->stride;
    for (unsigned min = 0; min < 2; min++)
        for (unsigned i = 0; i < LAYOUT_COLUMNS; i++)
            layout->column[min][i] =
                i == LAYOUT_LINK && link->element ? *link : plans[min].column[i];
    for (unsigned i = 0; i < LAYOUT_COLUMNS; i++) {
        const struct layout_column *column = &layout->column[0][i];
        if (column->element && !column->outside && column->place != LAYOUT_FREE &&
            column->offset - layout->lead < layout->room)
            layout->room = column->offset - layout->lead;
    }
    layout->link_outside = layout->column[0][LAYOUT_LINK].outside;
    layout->link_stride = layout->column[0][LAYOUT_LINK].stride;
    layout->link_offset = layout->column[0][LAYOUT_LINK].offset;
    if (STOOK_ENCODED && link->place == LAYOUT_FREE)
        layout->marks = LAYOUT_MARK_SIZE;
}

bool layout_plan_columns(struct layout *layout, const struct layout_request *request)
{
    struct columns_bounds bounds = {0};
    struct columns_plan plans[2];
    struct layout_column link;
    struct layout_plan plan;
    unsigned order = 0;
    uint32_t slab;

    if (!layout_read(&plan, request, &link))
        return false;
    if (!layout_choose_order(&plan, &order)) {
        plan.waste_unbound = true;
        if (!layout_choose_order(&plan, &order))
            return false;
    }
    slab = layout_bytes(&plan, order);
    bounds.meta = layout_meta_most(&plan, slab);
    if (!columns_best(&plan.object, slab, &bounds, &plans[0]))
        return false;
    if (request->later)
        layout_place_later(&plan, request, slab, &plans[0]);
    *layout = (struct layout){
        .order = (uint8_t)order,
        .min_order = (uint8_t)layout_plan_least(&plan, order, &plans[0], &plans[1]),
        .stride = plans[0].stride,
        .reciprocal = (((uint64_t)1 << LAYOUT_RECIPROCAL) + plans[0].stride - 1) / plans[0].stride,
        .objects = (uint16_t)plans[0].objects,
        .min_objects = (uint16_t)plans[1].objects,
        .waste = plans[0].unused,
        .lead = request->lead,
        .room = request->gap ? (uint32_t)request->size : plans[0].stride,
    };
    layout_set_columns(layout, plans, &link);
    return true;
}

bool layout_plan(struct layout *layout, size_t size, size_t align, unsigned wishes)
{
    struct layout_request request = {.size = size, .align = align, .wishes = wishes};

    request.element[LAYOUT_LINK] = LAYOUT_LINK_SIZE;
    return layout_plan_columns(layout, &request);
}

size_t layout_meta(const struct layout *layout, bool min, bool tags)
{
    size_t objects = layout_slab_objects(layout, min);
    size_t bytes = LAYOUT_DESCRIPTOR + layout->marks * objects;

    for (unsigned i = 0; i < LAYOUT_COLUMNS; i++) {
        const struct layout_column *column = &layout->column[min][i];
        size_t end = column->offset + objects * column->stride;
        if (column->outside && end > bytes && (i != LAYOUT_TAG || tags))
            bytes = end;
    }
    return bytes;
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
