/* SPDX-License-Identifier: MIT */
/* Clocks, and the median of inner rounds. */
#ifndef STOOK_BENCH_TIMING_H
#define STOOK_BENCH_TIMING_H

#include <stdint.h>
#include <time.h>

static inline uint64_t timing_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/*
 * A cheap counter of unknown unit, for the share that two short stretches have of one time: reading
 * the clock around each stretch would cost as much as the stretch.
 */
static inline uint64_t timing_ticks(void)
{
#if defined(__x86_64__)
    return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
    uint64_t ticks;
    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks));
    return ticks;
#else
    return timing_now();
#endif
}

/* Runs the loop `count` times and returns the nanoseconds it took. */
typedef uint64_t timing_round(void *context, uint64_t count);

/*
 * Finds how often the loop must run to last `ms` milliseconds (which also warms it up), runs
 * `rounds` rounds of that and returns the median of nanoseconds a run.
 */
double timing_median(timing_round *round, void *context, unsigned ms, unsigned rounds);

double timing_sort_median(double *values, unsigned count);

#endif
