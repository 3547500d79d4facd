/* SPDX-License-Identifier: MIT */
/*
 * large_samples.h - which large objects are samples for the profile: a table by their addresses.
 */
#ifndef STOOK_SAMPLE_LARGE_SAMPLES_H
#define STOOK_SAMPLE_LARGE_SAMPLES_H

#include "sample/sample.h"

#include <stdatomic.h>
#include <stdint.h>
#include <stddef.h>

/* How many there are: while there is none, no free looks. */
extern _Atomic uint32_t large_samples_live __attribute__((visibility("hidden")));

void large_samples_remove(const void *object);

struct large_sample {
    uint64_t bytes, born; /* sites_age() then */
    uint32_t site;
    float weight; /* 0: it is none */
};

/*
 * Takes the object's sample out of the table, for a move that may fail: once the object has moved, its old place may be
 * another thread's sample.  Then large_samples_end() says whether it stays where it was.
 */
struct large_sample large_samples_take(const void *object);
void large_samples_end(const void *object, const struct large_sample *sample, bool stays);

/*
 * A large object of so many bytes, asked for at `where` by a thread that has entered the group, and not charged.
 * After a resize or a move the object counts as a new one.  The caller has it in hand.
 */
void large_samples_came(const void *object, size_t bytes, size_t asked, uint64_t where,
                        uint32_t group);

/* Whether it matters: else the caller does not even find the group, which takes code that few programs read. */
static inline bool large_samples_wanted(void)
{
    return __builtin_expect(sample_mean_of(SAMPLE_PROFILE) != 0, 0);
}

/* It goes. */
static inline void large_samples_went(const void *object)
{
    if (__builtin_expect(atomic_load_explicit(&large_samples_live, memory_order_relaxed) != 0, 0))
        large_samples_remove(object);
}

#endif
