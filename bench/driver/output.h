/* SPDX-License-Identifier: MIT */
/* Records of one case as a table, or as JSON objects, one a line. */
#ifndef STOOK_BENCH_OUTPUT_H
#define STOOK_BENCH_OUTPUT_H

#include "plan.h"
#include "roster.h"
#include "run.h"

/* One allocator's figures: the medians over all runs, and the spread of pair_ns. */
struct output_record {
    const struct roster_entry *entry;
    size_t object_size;
    size_t n;
    struct run_figures median;
    double pair_min;
    double pair_max;
    int measured; /* else `missing` says why not */
    char missing[256];
};

void output_json(const struct plan_case *plan, const struct output_record *records, size_t count);
void output_table(const struct plan_case *plan, const struct output_record *records, size_t count);

#endif
