/* SPDX-License-Identifier: MIT */
/* The CPUs this process may run on, and pinning to them. */
#ifndef STOOK_BENCH_CPUS_H
#define STOOK_BENCH_CPUS_H

/* How many CPUs the process was started with. Call before any pinning. */
unsigned cpus_count(void);

/*
 * Pins the calling thread to the index-th allowed CPU, counted from the last: the first CPU
 * often serves the interrupts.
 */
void cpus_pin(unsigned index);

#endif
