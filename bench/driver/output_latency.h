/* SPDX-License-Identifier: MIT */
/* The records of latency. */
#ifndef STOOK_BENCH_OUTPUT_LATENCY_H
#define STOOK_BENCH_OUTPUT_LATENCY_H

#include "output.h"

/* The keys of one record behind its allocator. */
void output_latency_json(const struct output_record *record);

/* Two tables, of allocations and of frees. */
void output_latency(const struct output_record *records, size_t count);

#endif
