/* SPDX-License-Identifier: MIT */
/*
 * arena_kept.h - the runs and spans that were freed last, which lie out of their blocks: large/kept.h cuts the next ones
 * from them.
 *
 * They are warm memory: statistics say so, and arena_trim() gives them back.  A new slab or span gives back what all
 * CPUs keep: so pages that are kept make no program take others.
 *
 * No lock, also beside a fork: a run and its length are one word, and the thread that changes the word has what went.
 */
#ifndef STOOK_PAGE_ARENA_KEPT_H
#define STOOK_PAGE_ARENA_KEPT_H

#include "page/arena.h"

#include <stdatomic.h>

/* Rows.  CPUs beyond KEPT_CPUS share them; behind these the row of one long run of the process, of one span, and of one
 * span whose pages went back. */
enum { KEPT_CPUS = 64, KEPT_LONG = KEPT_CPUS, KEPT_SPAN, KEPT_CLEAN, KEPT_ROWS };
enum { KEPT_RUNS = 2 /* in a CPU's row */ };

struct arena_kept {
    _Atomic uint64_t run[KEPT_RUNS]; /* its address, and below that its pages; 0: none */
} __attribute__((aligned(64)));

extern struct arena_kept zone_kept_row[KEPT_ROWS]
    __attribute__((visibility("hidden"))); /* in zone_warm.c */
/* Something may be kept: set behind the word; the thread that clears it looks at all rows. */
extern _Atomic bool arena_kept_any __attribute__((visibility("hidden")));

static inline unsigned arena_kept_runs(unsigned row)
{
    return row < KEPT_LONG ? KEPT_RUNS : 1;
}

/* The bits of a word for its pages. */
static inline uint64_t arena_kept_mask(unsigned row)
{
    return ((uint64_t)1 << (row >= KEPT_SPAN ? BLOCK_SHIFT : PAGE_SHIFT)) - 1;
}

static inline void *arena_kept_run(unsigned row, uint64_t word)
{
    return (void *)(uintptr_t)(word & ~arena_kept_mask(row));
}

static inline size_t arena_kept_pages(unsigned row, uint64_t word)
{
    return word & arena_kept_mask(row);
}

/* Gives back what a row has, and all; pages. */
size_t arena_kept_drop_row(unsigned row);
size_t arena_kept_drop(void);
/* Pages of a zone that are kept, in a row and in all. */
static inline size_t arena_kept_in(unsigned row, unsigned zone)
{
    size_t pages = 0;

    for (unsigned i = 0; i < arena_kept_runs(row); i++) {
        uint64_t word = atomic_load_explicit(&zone_kept_row[row].run[i], memory_order_acquire);
        if (word != 0 && pagemap_zone(arena_kept_run(row, word)) == zone)
            pages += arena_kept_pages(row, word);
    }
    return pages;
}
size_t arena_kept(unsigned zone);

#endif
