/* SPDX-License-Identifier: MIT */
/* What the kernel says of this process' memory, and memory that no allocator under test has made. */
#ifndef STOOK_BENCH_RESIDENT_H
#define STOOK_BENCH_RESIDENT_H

#include <stddef.h>
#include <stdint.h>

/*
 * Resident bytes, exact: the kernel walks the page tables for it. /proc/self/statm is cheaper but
 * may be off by dozens of pages a CPU, more than an idle thread is to keep.
 */
uint64_t resident_bytes(void);

/* Minor faults of the process since its start. */
uint64_t resident_faults(void);

/*
 * Zeroed memory straight from the kernel, every page present, so that later use adds nothing.
 * A forked child shares it.
 */
void *resident_map(size_t bytes);

/*
 * The same, but private, and of huge pages where the kernel has some: for arrays so large that going
 * through them would cost more in page walks than what is timed.
 */
void *resident_map_huge(size_t bytes);

#endif
