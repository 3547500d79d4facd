/* SPDX-License-Identifier: MIT */
/*
 * starts.h - whether an address is the start of an object, by one word a class and no division.  Pure
 * functions.
 *
 * Let n = q * stride + r be an offset in a slab of o objects, M a number somewhat above 2^64 / stride,
 * and e = M * stride - 2^64.  Then n * M is q * e + r * M modulo 2^64; if (o + 1) * e < M that does not
 * reach 2^64, so it is below M where r is 0 and nowhere else.  If besides (o - 1) * e < M / 2 <= o * e,
 * it is below M / 2 for the starts of the o objects and for nothing else.  That excludes the place where one
 * more object would begin that does not fit.
 *
 * The word is M / 2.  Its low bits are those that twice an offset can have: an address, doubled, and these
 * bits are 2 * n, for slabs are aligned to their size.
 *
 * A slab of the minimum order is not aligned to the size of the preferred order.  Before the first of these
 * hands out an object, its class's word becomes 0, which no product is below.  From then on malloc's cold path
 * decides.
 */
#ifndef STOOK_MALLOC_STARTS_H
#define STOOK_MALLOC_STARTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { STARTS_BITS = 21, STARTS_STEP = 1 << STARTS_BITS };

/* The word, or 0 where there is none that is exact. */
static inline uint64_t starts_word(size_t slab, size_t stride, size_t objects)
{
    uint64_t least = (UINT64_MAX >> 1) / stride + 1, e;
    uint64_t word = (least & ~(uint64_t)(STARTS_STEP - 1)) | 2 * (slab - 1);

    if (2 * (slab - 1) >= STARTS_STEP || slab - objects * stride >= stride)
        return 0;
    if (word < least)
        word += STARTS_STEP;
    /* Modulo 2^64; each step of the word adds 2 * stride steps, and the bound grows by less than one. */
    while ((e = 2 * word * stride) < word / objects + 1)
        word += (word / objects - e) / (2 * stride * STARTS_STEP) * STARTS_STEP + STARTS_STEP;
    return e < word / objects * 2 && (objects - 1) * e < word && e < 2 * word / (objects + 1) ? word
                                                                                              : 0;
}

static inline __attribute__((always_inline)) bool starts_at(uint64_t word, const void *object)
{
    uint32_t twice = 2 * (uint32_t)(uintptr_t)object & (STARTS_STEP - 1) & (uint32_t)word;

    return twice * word < word;
}

#endif
