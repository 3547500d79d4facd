/* SPDX-License-Identifier: MIT */
/* Tables of the cases that are made of bulk calls, and of kmalloc; output.h has the rest. */
#ifndef STOOK_BENCH_OUTPUT_BULK_H
#define STOOK_BENCH_OUTPUT_BULK_H

#include "output.h"

void output_slab_bulk(const struct output_record *records, size_t count);
void output_slub_bulk(const struct output_record *records, size_t count);
void output_kmalloc(const struct output_record *records, size_t count);

#endif
