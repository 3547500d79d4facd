/* SPDX-License-Identifier: MIT */
/*
 * stook-bench CASE --against LIBDIR: the same rows with this build and with another, in turns.
 * Neighbouring runs make a pair, so that the machine's pace is nearly the same for both, and the
 * figure that counts is the median of the pairs' ratios.
 */
#ifndef STOOK_BENCH_AGAINST_H
#define STOOK_BENCH_AGAINST_H

#include "options.h"

/* Ends the program with a message where the folder holds no library of ours. */
void against_open(const char *folder);

/* Runs a case at one size and n, and prints it; returns how many runs failed. */
int against_run_case(const struct options *options, const struct plan_case *plan,
                     size_t object_size, size_t n);

#endif
