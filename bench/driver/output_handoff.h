/* SPDX-License-Identifier: MIT */
/* Tables of the hand-over cases; output.h has the rest. */
#ifndef STOOK_BENCH_OUTPUT_HANDOFF_H
#define STOOK_BENCH_OUTPUT_HANDOFF_H

#include "output.h"

/* handoff-burst, -pool and -rcu. */
void output_handoff(const struct output_record *records, size_t count);

/* Under the table of handoff: what single calls are to cost, and do, beside DPDK's. */
void output_handoff_target(const struct output_record *records, size_t count, double addition_ns);

#endif
