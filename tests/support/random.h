/* SPDX-License-Identifier: MIT */
/*
 * random.h - a small generator with a seed, so that a failure can be repeated.
 */
#ifndef TESTS_SUPPORT_RANDOM_H
#define TESTS_SUPPORT_RANDOM_H

#include <stdint.h>

/* splitmix64 */
static inline uint64_t random_next(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;

    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static inline uint32_t random_below(uint64_t *state, uint32_t end)
{
    return (uint32_t)((random_next(state) >> 32) * end >> 32);
}

#endif
