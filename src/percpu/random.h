/* SPDX-License-Identifier: MIT */
/*
 * random.h - where walks in random order come from.
 */
#ifndef STOOK_PERCPU_RANDOM_H
#define STOOK_PERCPU_RANDOM_H

#include <stdint.h>

/* Once, before the first permutation: what seeds every thread's generator, from the kernel. */
void random_init(void);

/*
 * A number, and one below n, from this thread's generator: no lock, no system call, so it serves every context, a handler
 * that interrupted it included.  Not for secrets.
 */
uint64_t random_word(void);
uint32_t random_below(uint32_t n);

/* The indices below n in random order, and n pointers.  As random_below(): a sandbox may be closed when a cache is made. */
void random_permute(uint16_t *index, uint32_t n);
void random_shuffle(void **pointer, uint32_t n);

#endif
