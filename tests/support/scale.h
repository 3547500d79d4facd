/* SPDX-License-Identifier: MIT */
/*
 * scale.h - how much work a test does: operations, never seconds.  Where the same work takes longer,
 * there is less of it; STOOK_TEST_ROUNDS=n does n times as much.
 */
#ifndef TESTS_SUPPORT_SCALE_H
#define TESTS_SUPPORT_SCALE_H

#include <stdint.h>
#include <stdlib.h>

#if defined(__SANITIZE_THREAD__)
#define SCALE_SLOWNESS 10
#elif defined(__SANITIZE_ADDRESS__)
#define SCALE_SLOWNESS 4
#else
#define SCALE_SLOWNESS 1
#endif

static inline uint64_t scale_rounds(void)
{
    const char *text = getenv("STOOK_TEST_ROUNDS");
    uint64_t rounds = text ? strtoull(text, NULL, 10) : 1;

    return rounds > 0 ? rounds : 1;
}

static inline uint64_t scaled(uint64_t work)
{
    uint64_t slowness = getenv("STOOK_EMULATED") || getenv("STOOK_SLOW") ? 10 : SCALE_SLOWNESS;

    return (work + slowness - 1) / slowness * scale_rounds();
}

#endif
