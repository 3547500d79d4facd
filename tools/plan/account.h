/* SPDX-License-Identifier: MIT */
/*
 * account.h - where the bytes of a planned slab go.
 */
#ifndef STOOK_TOOL_ACCOUNT_H
#define STOOK_TOOL_ACCOUNT_H

#include "slab/layout.h"

/* Where the bytes of one slab and of its descriptor are.  slab = objects + columns_inside +
 * columns_leftover + rounding + leftover; what is outside comes on top. */
struct layout_account {
    uint64_t slab;
    uint64_t objects;          /* of their own sizes */
    uint64_t columns_inside;   /* within the strides, except links in free objects */
    uint64_t columns_leftover; /* behind the last object */
    uint64_t rounding;         /* of the strides: alignment */
    uint64_t leftover;         /* behind the last object, unused */
    uint64_t descriptor;
    uint64_t columns_outside, gaps_outside; /* marks are among the columns */
};
void layout_account(const struct layout *layout, const struct layout_request *request, bool min,
                    struct layout_account *account);

#endif
