/* SPDX-License-Identifier: MIT */
/*
 * plan.h - stook plan: a layout with what it is compared to, and the ways to show it.
 */
#ifndef STOOK_TOOL_PLAN_H
#define STOOK_TOOL_PLAN_H

#include "slab/layout.h"

#include <stdbool.h>
#include <stdio.h>

enum { PLAN_ORDER_AUTO = -1 };

/* The columns, in the order of enum layout_which: name, letter in drawings, usual bytes. */
#define PLAN_COLUMNS(X)                                                                            \
    X(GROUP, "group", 'G', 8)                                                                      \
    X(TAG, "tag", 'T', 8)                                                                          \
    X(TRACK, "track", 'D', 16)                                                                     \
    X(LINK, "link", 'L', LAYOUT_LINK_SIZE)

/* " group tag ...", for messages. */
#define PLAN_NAME(id, name, letter, bytes) " " name
#define PLAN_NAMES PLAN_COLUMNS(PLAN_NAME)

#define PLAN_ONE(id, name, letter, bytes) +1
_Static_assert(
    PLAN_COLUMNS(PLAN_ONE) == LAYOUT_COLUMNS,
    "a column of slab/layout.h needs a row of PLAN_COLUMNS, and a name in stook-plan(1)");
#undef PLAN_ONE

struct plan_options {
    size_t size, align;
    unsigned page_shift;
    int order;                        /* or PLAN_ORDER_AUTO */
    uint16_t element[LAYOUT_COLUMNS]; /* of the columns that were named */
    bool ctor, typesafe, poison;      /* each forbids writing to free objects */
    bool library;                     /* links as in this library's caches, and its limits */
    bool outside;                     /* columns outside, for comparison */
    bool explain, json;
};

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

/* One layout of an object, with the same object without the columns and with them outside. */
struct plan_variant {
    struct layout_request request;
    struct layout layout;
    struct layout_account account;
    double bytes; /* an object, descriptor and outside arrays included */
};

struct plan {
    const struct plan_options *options;
    struct plan_variant chosen, without, outside;
    double extra, extra_outside; /* bytes an object beyond `without` */
};

/* False: no order holds the object. */
bool plan_make(struct plan *plan, const struct plan_options *options);

extern const char *const plan_column_names[LAYOUT_COLUMNS];
extern const char *const plan_place_names[LAYOUT_DEDICATED + 1];
bool plan_writable(const struct plan_options *options);
/* Columns that there are, by their offsets in the object, the slab or outside; how many. */
unsigned plan_columns(const struct layout *layout, bool outside, unsigned which[LAYOUT_COLUMNS]);
/* In each object's stride, beside it or in it. */
bool plan_in_object(const struct layout *layout, const struct layout_column *column);
/* Why this column is where it is: a sentence without its full stop. */
void plan_why(const struct plan *plan, unsigned which, char *text, size_t size);
void plan_why_order(const struct plan *plan, char *text, size_t size);

void plan_print(const struct plan *plan);
void plan_print_json(const struct plan *plan);

/* A machine's caches, of a file, a directory or this machine (NULL); the exit status. */
int plan_slabinfo(const struct plan_options *options, const char *path);

#endif
