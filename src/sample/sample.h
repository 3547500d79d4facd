/* SPDX-License-Identifier: MIT */
/*
 * sample.h - which allocations are samples: the one decision under the sampling guard (guard/) and sampled
 * profiles (shadow.h).
 *
 * Each thread counts the bytes that it asks for down to its next sample.  The distances between samples are at
 * random, exponential, and `mean` bytes in the mean.  So an allocation of s bytes is a sample with probability
 * 1 - exp(-s / mean), whatever came before, and 1 / (1 - exp(-s / mean)) allocations stand behind it: its weight.  An
 * exponential distance has no memory.  So it does not matter that threads end, or change what they allocate.
 *
 * The guard and the profile share the countdown.  Its mean is that of both together, and each sample is the guard's or
 * the profile's by chance, in proportion to how often each wants one.
 *
 * Where allocations are counted: malloc and kmalloc at their own door (kmalloc/sampled.h), large objects, and caches
 * that are closed to the fast path (charge/accounted_alloc.c).  Where nothing is sampled, these doors are shut.
 */
#ifndef STOOK_SAMPLE_SAMPLE_H
#define STOOK_SAMPLE_SAMPLE_H

#include "slab/cache.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum sample_line { SAMPLE_GUARD, SAMPLE_PROFILE, SAMPLE_LINES };

/* Samples of a line from now on, `mean` bytes apart, also another mean than before; 0: no more of them. */
void sample_begin(enum sample_line line, uint64_t mean);
extern _Atomic uint64_t sample_mean[SAMPLE_LINES] __attribute__((visibility("hidden")));
/* Of all lines together; 0: nothing is sampled. */
extern _Atomic uint64_t sample_period __attribute__((visibility("hidden")));

/* 0: none. */
static inline uint64_t sample_mean_of(enum sample_line line)
{
    return atomic_load_explicit(&sample_mean[line], memory_order_relaxed);
}

static inline bool sample_is_on(void)
{
    return __builtin_expect(atomic_load_explicit(&sample_period, memory_order_seq_cst) != 0, 0);
}

/* Bytes up to this thread's next sample; a new thread's is found by sample_take(). */
extern __thread int64_t sample_left
    __attribute__((visibility("hidden"), tls_model("initial-exec")));

/* An allocation of so many bytes, which counts; true: sample_take() says whether it is a sample. */
static inline bool sample_is_due(uint64_t size)
{
    return __builtin_expect((sample_left -= (int64_t)size) <= 0, 0);
}

/* What is known of an allocation. */
struct sample {
    enum sample_line line; /* that it is a sample of */
    float weight;          /* allocations that it stands for; 0: it is none */
};

/* Of an allocation for which sample_is_due(size) was true, once. */
struct sample sample_take(uint64_t size);

/* In a forked child: its samples are not those of its parent. */
void sample_child(void);

/* The distance to the next sample, at least 1, by a random number; pure. */
uint64_t sample_distance(uint64_t mean, uint64_t random);

/* 1 / (1 - exp(-size / mean)); pure. */
float sample_weight(uint64_t size, uint64_t mean);

#endif
