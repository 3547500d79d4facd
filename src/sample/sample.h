/* SPDX-License-Identifier: MIT */
/*
 * sample.h - which allocations are samples: the one decision under the sampling guard (guard/) and sampled
 * profiles (shadow.h).
 *
 * Samples are points on a line of bytes, at random and independent of each other, `mean` bytes apart in the mean
 * (a Poisson process).  An object whose bytes hold a point is a sample: one of s bytes is with probability
 * 1 - exp(-s / mean), whatever came before, so 1 / (1 - exp(-s / mean)) objects stand behind each sample: its
 * weight.  The guard and profiles have a line each.
 *
 * An allocation that is not sampled has no instruction for it.  Bytes are counted where objects are handed to
 * a CPU's main sheaf (sheaf/slot_alloc.c).  Where the next point lies within the sheaf's objects, only those
 * before it are handed over, and the others wait as the CPU's spare sheaf.  A token stands for the object with the
 * point, between both.  So the allocation that gets this object finds main empty, takes the slow path, and is told.
 * The point is that object's: the line goes on behind it at once, for whichever cache is next.
 *
 * What is counted is an object that comes to a main sheaf from the spare sheaf, a barn or the slabs, or from
 * these to the caller.  An object that is freed to the main sheaf and allocated from it again meets no slow path
 * in between, and is not counted again: what was said of its bytes still holds.  So the place of a sample that
 * is freed, and would lie on top of the main sheaf, is a sample for the allocation that gets it next:
 * slot_hold() keeps it.  Then every allocation, of fresh memory or not, is one with the same probability.
 *
 * Not counted are objects that reserves, pools, or calls for a certain node take from the slabs.  Two
 * threads that change a slot at once may count a sheaf twice.
 *
 * The lines are a thread's.  Distances are exponential, which have no memory: so it does not matter on which
 * CPU a thread meets a sheaf, who takes the objects that it was counted for, or that threads end.
 *
 * What samples cost a thread has a bound: one for as many objects as are counted for it, 4096 at 512 KiB, and 64 besides.
 * No clock is read for it, which a sandbox may forbid.  A sample costs the mean distance, and each object that is counted
 * pays SAMPLE_PAYS bytes of it afterwards, a large one a 64th of its own.  Payments are not saved up for later samples.  So a program with objects
 * of 128 bytes in the mean, or fewer, has a sample in each mean distance.  With debts of 64 samples half as many points
 * count, and each stands for twice as much; of places that are samples already, half are no longer; and so on for each 64.
 * Which points count is drawn when they are near, so the distance is what the debts are then.
 */
#ifndef STOOK_SAMPLE_SAMPLE_H
#define STOOK_SAMPLE_SAMPLE_H

#include "base/context.h"
#include "slab/cache.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum sample_line { SAMPLE_GUARD, SAMPLE_PROFILE, SAMPLE_LINES };

enum {
    SAMPLE_PAYS = 128,               /* bytes, for each object that is counted */
    SAMPLE_LARGE = 64 * SAMPLE_PAYS, /* bytes of a large object that pay as an object */
    SAMPLE_SHIFT_MOST = 14,          /* doublings of the distance */
};

/* Samples of a line from now on, `mean` bytes apart, also another mean than before; 0: no more of them. */
void sample_begin(enum sample_line line, uint64_t mean);
extern _Atomic uint64_t sample_mean[SAMPLE_LINES] __attribute__((visibility("hidden")));

/* 0: none. */
static inline uint64_t sample_mean_of(enum sample_line line)
{
    return atomic_load_explicit(&sample_mean[line], memory_order_relaxed);
}

/* hooks_set.sample */
uint32_t sample_hand_over(const struct stook_cache *cache, uint32_t own, uint32_t more,
                          uint32_t *token);

/* What is known of an allocation that is a sample. */
struct sample {
    unsigned lines; /* 1 << enum sample_line */
    float weight;   /* of the profile's: the objects that it stands for */
    bool again; /* it gets the place of a sample that was freed, and not the object that it took */
};

/* Whether the allocation that this thread has just made of the cache is a sample: the answer is given once. */
struct sample sample_take(const struct stook_cache *cache);

static inline bool sample_is_due(const struct stook_cache *cache)
{
    return __builtin_expect(context_self()->sampled == cache, 0);
}

/* A large object: it is counted as a whole. */
bool sample_large(size_t size, float *weight);

/* Samples that are not paid for before the distance doubles, and again for each doubling; tests set it. */
extern uint64_t sample_debt_step __attribute__((visibility("hidden")));

/* A sample of the profile was taken. */
void sample_paid(void);

/* This thread's objects that were counted so far. */
uint64_t sample_objects(void);

/* The token (sheaf/slot.h) of the place of a freed sample of so many bytes, for the next allocation there.  0: it is
 * none, since samples stand for more now, and this one was not among them. */
uint32_t sample_again(float weight, uint64_t size);

/* In a forked child: its samples are not those of its parent. */
void sample_child(void);

/* The distance to the next point, at least 1, by a random number; pure. */
uint64_t sample_distance(uint64_t mean, uint64_t random);

/* 1 / (1 - exp(-size / mean)); pure. */
float sample_weight(uint64_t size, uint64_t mean);

#endif
