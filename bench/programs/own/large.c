/* SPDX-License-Identifier: MIT */
/* Some tens of live blocks of 5 to 25 MiB, replaced at random and written to from end to end, a word a page. */
#include "own.h"

enum { LIVE = 20, PAGE = 4096 };

uint64_t own_large(unsigned scale)
{
    struct own_random random = {4};
    unsigned char *block[LIVE] = {NULL};
    size_t size[LIVE] = {0};
    uint64_t sum = 0;

    for (unsigned n = 0; n < scale * 4; n++) {
        unsigned i = own_below(&random, LIVE);
        for (size_t at = 0; at < size[i]; at += 64 * PAGE)
            sum += block[i][at];
        free(block[i]);
        size[i] = ((size_t)5 << 20) + own_below(&random, 20u << 20);
        block[i] = own_alloc(size[i]);
        for (size_t at = 0; at < size[i]; at += PAGE)
            block[i][at] = (unsigned char)n;
    }
    for (unsigned i = 0; i < LIVE; i++)
        free(block[i]);
    return sum;
}
