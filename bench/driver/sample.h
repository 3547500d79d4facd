/* SPDX-License-Identifier: MIT */
/* What all kinds of runs share: which records a case has, one run of one of them, and medians. */
#ifndef STOOK_BENCH_SAMPLE_H
#define STOOK_BENCH_SAMPLE_H

#include "options.h"
#include "output.h"

#define RECORDS_MAX 256
#define REPEATS_MAX 101

/* Fills in the records that the options leave of a case at that size and n; returns how many. */
size_t sample_list(const struct options *options, const struct plan_case *plan, size_t object_size,
                   size_t n, struct output_record *records);

/*
 * Runs the worker once for a record. `setting`, NAME=value or NULL, is added to its environment
 * beside what the record's variant asks for.
 */
enum run_status sample_run(const struct options *options, const struct plan_case *plan,
                           const char *worker, const struct output_record *record,
                           const char *setting, struct run_figures *figures);

/* Sorts the values; NAN of none. */
double sample_median(double *values, unsigned count);

#endif
