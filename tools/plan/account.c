/* SPDX-License-Identifier: MIT */
/*
 * account.c - sums up where the bytes of a planned slab go.
 */
#include "plan/account.h"

#include "page/pagemap.h"

void layout_account(const struct layout *layout, const struct layout_request *request, bool min,
                    struct layout_account *account)
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
