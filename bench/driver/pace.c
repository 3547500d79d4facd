/* SPDX-License-Identifier: MIT */
#include "pace.h"

#include <stdint.h>
#include <time.h>

static uint64_t pace_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

double pace_addition_ns(void)
{
    enum { ROUNDS = 9, ADDITIONS = 2000000 };
    double best = 0;

    for (int round = 0; round < ROUNDS; round++) {
        uint64_t sum = 0, start = pace_now();
        for (uint64_t i = 0; i < ADDITIONS; i++) {
            sum += i;
            __asm__ volatile("" : "+r"(sum));
        }
        double took = (double)(pace_now() - start) / ADDITIONS;
        if (round == 0 || took < best)
            best = took;
    }
    return best;
}
