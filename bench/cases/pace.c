/* SPDX-License-Identifier: MIT */
/*
 * pace: how fast the machine is at this moment.  It measures the nanoseconds of one addition in a chain of additions, each of
 * which waits for the one before: one cycle of the core.  Neither an allocator nor memory takes part.
 */
#include "case.h"
#include "timing.h"

int case_pace(const struct case_params *params, struct case_result *result)
{
    enum { ROUNDS = 9, ADDITIONS = 2000000 };
    double best = 0;

    (void)params;
    for (int round = 0; round < ROUNDS; round++) {
        uint64_t sum = 0, start = timing_now();
        for (uint64_t i = 0; i < ADDITIONS; i++) {
            sum += i;
            __asm__ volatile("" : "+r"(sum));
        }
        double took = (double)(timing_now() - start) / ADDITIONS;
        if (round == 0 || took < best)
            best = took;
    }
    CASE_SET(result, addition_ns, best);
    return 0;
}
