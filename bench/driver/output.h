/* SPDX-License-Identifier: MIT */
/* Records of one case as a table, or as JSON objects, one a line. */
#ifndef STOOK_BENCH_OUTPUT_H
#define STOOK_BENCH_OUTPUT_H

#include "plan.h"
#include "roster.h"
#include "run.h"
#include "variant.h"

/* One allocator's figures, in one variant: the medians over all runs, and the spread of pair_ns. */
struct output_record {
    const struct roster_entry *entry;
    struct variant variant;
    size_t object_size;
    size_t n;
    struct run_figures median;
    double pair_min;
    double pair_max;
    int measured; /* else `missing` says why not */
    char missing[256];
};

#define VALUE(record, metric) ((record)->median.value[METRIC_##metric])

void output_json(const struct plan_case *plan, const struct output_record *records, size_t count);
void output_table(const struct plan_case *plan, const struct output_record *records, size_t count);

/* A cell of a table, after a blank; "-" where there is no figure. */
void output_cell(double value, int width, int decimals);

/* The fastest malloc that is not ours; of one linking, or of any where `linked` is NULL. */
double output_best_peer(const struct output_record *records, size_t count, const char *linked);

/* The linking of the peers a record stands beside: NULL, any, for what has none worth the name. */
const char *output_peers_of(const struct output_record *record);

#endif
