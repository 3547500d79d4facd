/* SPDX-License-Identifier: MIT */
/*
 * sizes.h - the size classes of malloc.  Pure functions.
 *
 *   16 .. 512        steps of 16: every size is a multiple of malloc's alignment
 *   512 .. 2048      16 a doubling: at most 6.25 % more than asked for
 *   2048 .. 32768    8 a doubling: at most 12.5 %
 *
 * Every power of two is a class, and every class is a multiple of 16.
 */
#ifndef STOOK_MALLOC_SIZES_H
#define STOOK_MALLOC_SIZES_H

#include <stddef.h>

enum {
    SIZES_STEP = 16,
    SIZES_FINE = 512, /* steps of SIZES_STEP up to here */
    SIZES_MIDDLE = 2048,
    SIZES_MAX = 32768,
    SIZES_CLASSES = SIZES_FINE / SIZES_STEP + 2 * 16 + 4 * 8,
    SIZES_STEPS = SIZES_MAX / SIZES_STEP + 1, /* 0 .. SIZES_MAX in steps, rounded up */
};

/* The size of a class; they grow with their number. */
static inline size_t sizes_of(unsigned class)
{
    unsigned k = class + 1, fine = SIZES_FINE / SIZES_STEP;

    if (k <= fine)
        return (size_t)k * SIZES_STEP;
    k -= fine; /* 16 classes over 512, 16 over 1024 */
    if (k <= 32)
        return k <= 16 ? SIZES_FINE + (size_t)k * 32 : 2 * SIZES_FINE + (size_t)(k - 16) * 64;
    k -= 33; /* 8 classes over each power of two from 2048 on */
    return ((size_t)SIZES_MIDDLE << k / 8) + ((size_t)(k % 8 + 1) << (8 + k / 8));
}

/* The smallest class of at least `size`, which is at most SIZES_MAX. */
static inline unsigned sizes_class(size_t size)
{
    unsigned shift, top;

    if (size <= SIZES_FINE)
        return size == 0 ? 0 : (unsigned)((size - 1) / SIZES_STEP);
    top = 63 - (unsigned)__builtin_clzll(size - 1); /* size is in (2^top, 2^(top+1)] */
    shift = size <= SIZES_MIDDLE ? top - 4 : top - 3;
    unsigned step = (unsigned)((size - 1 - ((size_t)1 << top)) >> shift);
    return size <= SIZES_MIDDLE ? SIZES_FINE / SIZES_STEP + (top - 9) * 16 + step
                                : SIZES_FINE / SIZES_STEP + 32 + (top - 11) * 8 + step;
}

#endif
