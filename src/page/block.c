/* SPDX-License-Identifier: MIT */
/*
 * block.c - finds, takes and returns runs of pages in a block's bitmaps, and granules of its metadata.
 */
#include "page/block.h"

#include "base/report.h"

#include <string.h>

/* The first bit at or after `from` with the wanted value, or `end`. */
static unsigned block_next(const uint64_t *map, unsigned from, unsigned end, bool set)
{
    while (from < end) {
        uint64_t word = (set ? map[from / 64] : ~map[from / 64]) >> from % 64;
        if (word) {
            from += (unsigned)__builtin_ctzll(word);
            return from < end ? from : end;
        }
        from = (from | 63) + 1;
    }
    return end;
}

/* The bits of [*at, *at + *count) in the word of the first, which are passed. */
static uint64_t block_mask(unsigned *at, unsigned *count)
{
    unsigned bit = *at % 64, n = 64 - bit < *count ? 64 - bit : *count;

    *at += n;
    *count -= n;
    return ~(uint64_t)0 >> (64 - n) << bit;
}

static void block_fill(uint64_t *map, unsigned at, unsigned count, bool set)
{
    while (count > 0) {
        uint64_t *word = &map[at / 64], mask = block_mask(&at, &count);
        *word = set ? *word | mask : *word & ~mask;
    }
}

static unsigned block_count(const uint64_t *map, unsigned at, unsigned count)
{
    unsigned sum = 0;

    while (count > 0) {
        unsigned from = at;
        uint64_t word = map[at / 64], mask = block_mask(&at, &count);
        /* Mostly all or none; without the instruction a count is a call. */
        if ((word & mask) == mask)
            sum += at - from;
        else if (word & mask)
            sum += (unsigned)__builtin_popcountll(word & mask);
    }
    return sum;
}

/* The first of n bits with the wanted value, from `at` on and at a multiple of `align`; or -1. */
static inline __attribute__((always_inline)) int block_search(const uint64_t *map, unsigned at,
                                                              unsigned n, unsigned align,
                                                              unsigned end, const bool set)
{
    while ((at = block_next(map, at, end, set)) + n <= end) {
        unsigned first = (at + align - 1) & ~(align - 1);
        if (first + n > end)
            return -1;
        at = block_next(map, first, first + n, !set);
        if (at == first + n)
            return (int)first;
    }
    return -1;
}

static int block_find_in(const uint64_t *map, unsigned pages, unsigned align)
{
    return block_search(map, 0, pages, align, BLOCK_PAGES, true);
}

int block_find(const struct block *block, unsigned pages, unsigned align)
{
    int at = block->ndirty >= pages ? block_find_in(block->dirty, pages, align) : -1;

    return at >= 0 ? at : block_find_in(block->free, pages, align);
}

unsigned block_take(struct block *block, unsigned at, unsigned pages)
{
    unsigned dirty = block_count(block->dirty, at, pages);

    STOOK_ASSERT(block_is_free(block, at, pages));
    block_fill(block->free, at, pages, false);
    block_fill(block->dirty, at, pages, false);
    block->nfree = (uint16_t)(block->nfree - pages);
    block->ndirty = (uint16_t)(block->ndirty - dirty);
    return dirty;
}

void block_put(struct block *block, unsigned at, unsigned pages, bool dirty)
{
    unsigned first = at, end;

    STOOK_ASSERT(block_count(block->free, at, pages) == 0);
    block_fill(block->free, at, pages, true);
    block->nfree = (uint16_t)(block->nfree + pages);
    if (dirty) {
        block_fill(block->dirty, at, pages, true);
        block->ndirty = (uint16_t)(block->ndirty + pages);
    }
    /* The run that now contains these pages; words of all ones make this short. */
    end = block_next(block->free, at + pages, BLOCK_PAGES, false);
    while (first > 0 && (block->free[(first - 1) / 64] >> (first - 1) % 64 & 1)) {
        uint64_t below = ~block->free[(first - 1) / 64] << (63 - (first - 1) % 64);
        unsigned run = below ? (unsigned)__builtin_clzll(below) : (first - 1) % 64 + 1;
        first -= run;
    }
    if (end - first > block->longest)
        block->longest = (uint16_t)(end - first);
}

bool block_is_free(const struct block *block, unsigned at, unsigned pages)
{
    return at + pages <= BLOCK_PAGES && block_count(block->free, at, pages) == pages;
}

void block_measure(struct block *block)
{
    block->longest = 0;
    for (unsigned at = 0, n; (n = block_next_run(block->free, &at)) > 0; at += n)
        if (n > block->longest)
            block->longest = (uint16_t)n;
}

unsigned block_next_run(const uint64_t mask[BLOCK_WORDS], unsigned *at)
{
    *at = block_next(mask, *at, BLOCK_PAGES, true);
    return block_next(mask, *at, BLOCK_PAGES, false) - *at;
}

uint32_t block_take_meta(struct block *block, uint64_t *map, uint32_t granules)
{
    unsigned from = block->meta_hint < BLOCK_FIRST_GRANULE ? BLOCK_FIRST_GRANULE : block->meta_hint;
    int at;

    if (block->meta_high == 0) /* never read: one fault in place of two */
        map[0] = 0;
    at = block_search(map, from, granules, 1, BLOCK_GRANULES, false);
    if (at < 0)
        at = block_search(map, BLOCK_FIRST_GRANULE, granules, 1, BLOCK_GRANULES, false);
    if (at >= 0) {
        block_fill(map, (unsigned)at, granules, true);
        block->meta_hint = (unsigned)at + granules;
        if (block->meta_hint > block->meta_high)
            block->meta_high = block->meta_hint;
        return (uint32_t)at;
    }
    if (block_may_take_meta(block, granules))
        block->meta_short = (uint16_t)(granules < BLOCK_GRANULES ? granules : BLOCK_GRANULES);
    return 0;
}

void block_put_meta(struct block *block, uint64_t *map, uint32_t at, uint32_t granules)
{
    STOOK_ASSERT(block_count(map, at, granules) == granules);
    block_fill(map, at, granules, false);
    if (at < block->meta_hint)
        block->meta_hint = at;
    block->meta_short = 0;
}
