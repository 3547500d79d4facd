/* SPDX-License-Identifier: MIT */
/*
 * sizes.h - the size classes of malloc.  Pure functions.
 *
 *   16 .. 256        steps of 16: every size is a multiple of malloc's alignment
 *   256 .. 4096      8 a doubling, and 1088: at most 12.5 % more than asked for
 *   4096 .. 32768    the rest of sizes_large: at most 25 %
 *
 * Every power of two is a class, and every class is a multiple of 16.  What programs asked for chose them
 * (docs/decisions/0037-classes-by-evidence.md): a class more is one more in which a program that has used one
 * object leaves it.
 */
#ifndef STOOK_MALLOC_SIZES_H
#define STOOK_MALLOC_SIZES_H

#include <stddef.h>
#include <stdint.h>

static const uint16_t sizes_large[] = {
    1088, 1152, 1280, 1408, 1536, 1664, 1792, 1920, 2048,  2304,  2560,  2816,  3072,  3328,  3584,
    3840, 4096, 4608, 5120, 6144, 7168, 8192, 9216, 11264, 13312, 16384, 20480, 24576, 28672, 32768,
};

enum {
    SIZES_STEP = 16,
    SIZES_FINE = 256,    /* steps of SIZES_STEP up to here */
    SIZES_MIDDLE = 1024, /* 8 a doubling up to here */
    SIZES_MAX = 32768,
    SIZES_STEPPED = SIZES_FINE / SIZES_STEP + 2 * 8, /* classes up to SIZES_MIDDLE */
    SIZES_LARGE = sizeof(sizes_large) / sizeof(sizes_large[0]),
    SIZES_CLASSES = SIZES_STEPPED + SIZES_LARGE,
    SIZES_STEPS = SIZES_MAX / SIZES_STEP + 1, /* 0 .. SIZES_MAX in steps, rounded up */
};

/* The size of a class; they grow with their number. */
static inline size_t sizes_of(unsigned class)
{
    unsigned k = class + 1, fine = SIZES_FINE / SIZES_STEP;

    if (k <= fine)
        return (size_t)k * SIZES_STEP;
    if (k > SIZES_STEPPED)
        return sizes_large[class - SIZES_STEPPED];
    k -= fine + 1; /* 8 classes over each power of two from 256 on */
    return ((size_t)SIZES_FINE << k / 8) + ((size_t)(k % 8 + 1) << (5 + k / 8));
}

/* The smallest class of at least `size`, which is at most SIZES_MAX. */
static inline unsigned sizes_class(size_t size)
{
    unsigned top, class = SIZES_STEPPED;

    if (size <= SIZES_FINE)
        return size == 0 ? 0 : (unsigned)((size - 1) / SIZES_STEP);
    if (size <= SIZES_MIDDLE) {
        top = 63 - (unsigned)__builtin_clzll(size - 1); /* size is in (2^top, 2^(top+1)] */
        return SIZES_FINE / SIZES_STEP + (top - 8) * 8 +
               (unsigned)((size - 1 - ((size_t)1 << top)) >> (top - 3));
    }
    for (unsigned n = SIZES_LARGE, half; n > 1; n -= half) { /* it is one of n from `class` on */
        half = n / 2;
        if (sizes_large[class - SIZES_STEPPED + half - 1] < size)
            class += half;
    }
    return class;
}

#endif
