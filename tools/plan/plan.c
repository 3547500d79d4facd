/* SPDX-License-Identifier: MIT */
/*
 * plan.c - plans a layout with its columns, without them and with them outside, and says why each
 * place was chosen.
 */
#include "plan/plan.h"

#include "page/pagemap.h"

#include <string.h>

const char *const plan_column_names[LAYOUT_COLUMNS] = {
#define PLAN_ROW(id, name, letter, bytes) [LAYOUT_##id] = (name),
    PLAN_COLUMNS(PLAN_ROW)
#undef PLAN_ROW
};

const char *const plan_place_names[LAYOUT_DEDICATED + 1] = {
    [LAYOUT_NOWHERE] = "nowhere", [LAYOUT_PADDING] = "padding",  [LAYOUT_LEFTOVER] = "leftover",
    [LAYOUT_OUTSIDE] = "outside", [LAYOUT_FREE] = "free-object", [LAYOUT_DEDICATED] = "dedicated",
};

bool plan_writable(const struct plan_options *options)
{
    return !options->ctor && !options->typesafe && !options->poison;
}

static void plan_account(const struct layout *layout, const struct layout_request *request,
                         bool min, struct layout_account *account)
{
    unsigned shift = request->page_shift ? request->page_shift : PAGE_SHIFT;
    uint64_t objects = layout_slab_objects(layout, min);

    *account = (struct layout_account){
        .slab = (uint64_t)1 << (shift + (min ? layout->min_order : layout->order)),
        .objects = objects * request->size,
        .descriptor = LAYOUT_DESCRIPTOR,
        .columns_outside = layout->marks * objects,
    };
    for (unsigned i = 0; i < LAYOUT_COLUMNS; i++) {
        const struct layout_column *column = &layout->column[min][i];
        uint64_t bytes = objects * column->element;
        if (!column->element || column->place == LAYOUT_FREE)
            continue;
        if (column->outside)
            account->columns_outside += bytes;
        else if (column->stride == layout->stride && column->offset < layout->stride)
            account->columns_inside += bytes;
        else
            account->columns_leftover += bytes;
    }
    account->rounding = objects * layout->stride - account->objects - account->columns_inside;
    account->leftover = account->slab - objects * layout->stride - account->columns_leftover;
    account->gaps_outside =
        layout_meta(layout, min, true) - LAYOUT_DESCRIPTOR - account->columns_outside;
}

static bool plan_variant_make(struct plan_variant *variant)
{
    struct layout *layout = &variant->layout;

    if (!layout_plan_columns(layout, &variant->request))
        return false;
    plan_account(layout, &variant->request, false, &variant->account);
    variant->bytes =
        (double)(variant->account.slab + layout_meta(layout, false, true)) / layout->objects;
    return true;
}

bool plan_make(struct plan *plan, const struct plan_options *options)
{
    struct layout_request *request = &plan->chosen.request;

    memset(plan, 0, sizeof(*plan));
    plan->options = options;
    *request = (struct layout_request){
        .size = options->size,
        .align = options->align,
        .wishes = (plan_writable(options) ? LAYOUT_WRITABLE : 0) |
                  (options->as_library ? 0 : LAYOUT_BYTES | LAYOUT_META_ANY) |
                  (options->outside ? LAYOUT_COLUMNS_OUTSIDE : 0),
        .page_shift = options->page_shift,
        .orders = options->order == PLAN_ORDER_AUTO ? 0 : 1u << options->order,
    };
    plan->without.request = *request;
    memcpy(request->element, options->element, sizeof(request->element));
    if (options->as_library) { /* its slabs have links in any case */
        request->element[LAYOUT_LINK] = LAYOUT_LINK_SIZE;
        plan->without.request.element[LAYOUT_LINK] =
            options->element[LAYOUT_LINK] ? 0 : LAYOUT_LINK_SIZE;
    }
    plan->outside.request = *request;
    plan->outside.request.wishes |= LAYOUT_COLUMNS_OUTSIDE;
    if (!plan_variant_make(&plan->chosen) || !plan_variant_make(&plan->without) ||
        !plan_variant_make(&plan->outside))
        return false;
    plan->extra = plan->chosen.bytes - plan->without.bytes;
    plan->extra_outside = plan->outside.bytes - plan->without.bytes;
    return true;
}

unsigned plan_columns(const struct layout *layout, bool outside, unsigned which[LAYOUT_COLUMNS])
{
    unsigned n = 0;

    for (unsigned i = 0; i < LAYOUT_COLUMNS; i++) {
        struct layout_column column = layout->column[false][i];
        unsigned at = n;
        if (!column.element || column.outside != outside)
            continue;
        for (; at > 0 && layout->column[false][which[at - 1]].offset > column.offset; at--)
            which[at] = which[at - 1];
        which[at] = i;
        n++;
    }
    return n;
}

bool plan_in_object(const struct layout *layout, const struct layout_column *column)
{
    return column->element && !column->outside && column->offset < layout->stride;
}

/* What is there for it anyway: padding of each object, and what the slab has at its end. */
static void plan_spare(const struct plan *plan, char *text, size_t size)
{
    const struct plan_variant *without = &plan->without;
    unsigned padding = without->layout.stride - (unsigned)without->request.size;
    unsigned leftover = (unsigned)without->account.leftover;

    if (padding == 0 && leftover == 0)
        snprintf(text, size, "strides have no padding and the slab no leftover");
    else
        snprintf(text, size, "%u bytes of padding an object and %u of leftover a slab", padding,
                 leftover);
}

static void plan_why_link(const struct plan *plan, const struct layout_column *column, char *text,
                          size_t size)
{
    if (plan->options->as_library)
        snprintf(text, size,
                 column->outside
                     ? "this library keeps links outside from %u bytes on: one in a cold object "
                       "costs a cache miss"
                     : "below %u bytes two bytes outside would be over 4 %% of the object",
                 LAYOUT_LINK_MIN);
    else
        snprintf(text, size, "a free object may be written to, so its first bytes cost nothing");
}

void plan_why(const struct plan *plan, unsigned which, char *text, size_t size)
{
    const struct layout *layout = &plan->chosen.layout, *without = &plan->without.layout;
    struct layout_column column = layout->column[false][which];
    char spare[120];

    plan_spare(plan, spare, sizeof(spare));
    if (which == LAYOUT_LINK && (plan->options->as_library || column.place == LAYOUT_FREE)) {
        plan_why_link(plan, &column, text, size);
        return;
    }
    switch ((enum layout_place)column.place) {
    case LAYOUT_PADDING:
        snprintf(text, size,
                 "each object is followed by %u bytes of padding, which are there anyway",
                 without->stride - (unsigned)plan->chosen.request.size);
        return;
    case LAYOUT_LEFTOVER:
        snprintf(text, size,
                 "the slab's last %u bytes hold no object; %u elements of %u bytes are %u",
                 (unsigned)(plan->chosen.account.slab - (uint64_t)layout->objects * layout->stride),
                 layout->objects, column.element, layout->objects * column.element);
        return;
    case LAYOUT_OUTSIDE:
        if (plan->options->outside)
            snprintf(text, size, "asked for");
        else
            snprintf(text, size, "%s do not hold it for less; bytes of the objects would cost more",
                     spare);
        return;
    case LAYOUT_DEDICATED:
        if (plan_in_object(layout, &column))
            snprintf(text, size,
                     "%s do not hold it; strides of %u for %u cost %.4g bytes an object in all, "
                     "arrays outside %.4g",
                     spare, layout->stride, without->stride, plan->extra, plan->extra_outside);
        else
            snprintf(text, size,
                     "%s do not hold it; objects given up for an array cost %.4g bytes an object "
                     "in all, arrays outside %.4g",
                     spare, plan->extra, plan->extra_outside);
        return;
    default:
        snprintf(text, size, "it was not requested");
    }
}

void plan_why_order(const struct plan *plan, char *text, size_t size)
{
    snprintf(text, size, "%s",
             plan->options->order != PLAN_ORDER_AUTO
                 ? "asked for"
                 : "as without columns: least waste at the end, 0.1 % for each order");
}
