/* SPDX-License-Identifier: MIT */
/* A small generator of its own, so that all allocators see the same sizes and the same order. */
#ifndef STOOK_BENCH_RANDOM_H
#define STOOK_BENCH_RANDOM_H

#include <stddef.h>
#include <stdint.h>

struct random {
    uint64_t state;
};

/* splitmix64 */
static inline uint64_t random_next(struct random *random)
{
    uint64_t z = (random->state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* Uniform over 0 .. below-1; below must fit 32 bits. */
static inline uint32_t random_below(struct random *random, uint32_t below)
{
    return (uint32_t)(((random_next(random) >> 32) * below) >> 32);
}

static inline size_t random_between(struct random *random, size_t low, size_t high)
{
    return low + random_below(random, (uint32_t)(high - low + 1));
}

static inline void random_shuffle(struct random *random, void **items, size_t count)
{
    for (size_t i = count; i > 1; i--) {
        size_t j = random_below(random, (uint32_t)i);
        void *swap = items[i - 1];
        items[i - 1] = items[j];
        items[j] = swap;
    }
}

#endif
