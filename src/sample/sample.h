/* SPDX-License-Identifier: MIT */
/*
 * sample.h - which allocations are samples: the one decision under the sampling guard (guard/) and sampled
 * profiles.
 *
 * Samples are points on a line of bytes, at random and independent of each other, `mean` bytes apart in the mean
 * (a Poisson process).  An object whose bytes hold a point is a sample: one of s bytes is with probability
 * 1 - exp(-s / mean), whatever came before, so 1 / (1 - exp(-s / mean)) objects stand behind each sample.
 *
 * An allocation that is not sampled has no instruction for it.  Bytes are counted where objects are handed to
 * a CPU's main sheaf (sheaf/slot_alloc.c).  Where the next point lies within the sheaf's objects, only those
 * before it are handed over, and the others wait as the CPU's spare sheaf.  So the allocation that gets the object with the point finds the sheaf empty, and
 * takes the slow path.
 *
 * What is counted is an object that comes to a main sheaf from the spare sheaf, a barn or the slabs, or from
 * these to the caller.  What is not: an object that is freed to the main sheaf and allocated from it again,
 * which meets no slow path in between; and objects that reserves, pools, or calls for a certain node take from
 * the slabs.  Two threads that change a slot at once may count a sheaf twice.
 *
 * The line is a thread's.  Its distances are exponential, which have no memory: so it does not matter on which
 * CPU a thread meets a sheaf, who takes the objects that it was counted for, or that threads end.
 */
#ifndef STOOK_SAMPLE_SAMPLE_H
#define STOOK_SAMPLE_SAMPLE_H

#include "base/context.h"
#include "slab/cache.h"

#include <stdbool.h>
#include <stdint.h>

/* Samples from now on, `mean` bytes apart (not 0); also another mean than before. */
void sample_begin(uint64_t mean);

/* hooks_set.sample */
uint32_t sample_hand_over(const struct stook_cache *cache, uint32_t n, uint32_t some, bool own);

/* Whether the allocation that this thread has just made of the cache is a sample: the answer is given once. */
static inline bool sample_is_due(const struct stook_cache *cache)
{
    struct context *context = context_self();

    if (__builtin_expect(context->sampled != cache, 1))
        return false;
    context->sampled = NULL;
    return true;
}

/* In a forked child: its samples are not those of its parent. */
void sample_child(void);

/* The distance to the next point, at least 1, by a random number; pure. */
uint64_t sample_distance(uint64_t mean, uint64_t random);

#endif
