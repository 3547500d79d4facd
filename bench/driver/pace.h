/* SPDX-License-Identifier: MIT */
/* How fast the machine is at this moment, in a unit that no allocator and no memory has part in. */
#ifndef STOOK_BENCH_PACE_H
#define STOOK_BENCH_PACE_H

/*
 * Nanoseconds of one addition in a chain of them, each of which waits for the one before: one cycle of
 * the core. Takes some milliseconds.
 */
double pace_addition_ns(void);

#endif
