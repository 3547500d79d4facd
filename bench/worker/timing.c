/* SPDX-License-Identifier: MIT */
/*
 * timing.c - finds how often a loop must run, and takes the median of its rounds.
 */
#include "timing.h"

#include "case.h"

#define ROUNDS_MAX 101

double timing_sort_median(double *values, unsigned count)
{
    for (unsigned i = 1; i < count; i++)
        for (unsigned j = i; j > 0 && values[j - 1] > values[j]; j--) {
            double swap = values[j];
            values[j] = values[j - 1];
            values[j - 1] = swap;
        }
    return count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

double timing_median(timing_round *round, void *context, unsigned ms, unsigned rounds)
{
    double values[ROUNDS_MAX];
    uint64_t target = (uint64_t)(ms ? ms : 1) * 1000000u;
    uint64_t count = 16;

    if (rounds < 1)
        rounds = 1;
    if (rounds > ROUNDS_MAX)
        rounds = ROUNDS_MAX;
    for (;;) {
        uint64_t took = round(context, count);
        if (took >= target / 4) { /* or was interrupted for so long: not twice */
            uint64_t again = round(context, count);
            took = again < took ? again : took;
        }
        if (took >= target / 4) {
            count = (uint64_t)((double)count * (double)target / (double)took);
            break;
        }
        count *= 2;
    }
    if (!count)
        count = 1;
    for (unsigned i = 0; i < rounds; i++)
        values[i] = (double)round(context, count) / (double)count;
    return timing_sort_median(values, rounds);
}
