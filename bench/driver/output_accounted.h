/* SPDX-License-Identifier: MIT */
/* The tables of tags, groups and columns, and what is compared in them: with nothing kept. */
#ifndef STOOK_BENCH_OUTPUT_ACCOUNTED_H
#define STOOK_BENCH_OUTPUT_ACCOUNTED_H

#include "output.h"

/* Nanoseconds that an operation (half a pair) takes more than with nothing kept about objects; NAN where
 * that was not measured. */
double output_accounted_extra(const struct output_record *records, size_t count,
                              const struct output_record *record);
void output_accounted(const struct output_record *records, size_t count);

/* Bytes an object takes more than with nothing kept, of METRIC_resident_bytes or _counted_bytes. */
double output_columns_extra(const struct output_record *records, size_t count,
                            const struct output_record *record, enum metric metric);
void output_columns(const struct output_record *records, size_t count);

#endif
