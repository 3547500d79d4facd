/* SPDX-License-Identifier: MIT */
/*
 * block.h - one 2 MiB block: which of its 512 pages are free, which free ones are still resident
 * (dirty), and the granules of its metadata.  All fields under the zone's lock, those of the last
 * lines excepted.  Headers lie side by side, 16 a page: blocks of spans have no other metadata.
 *
 * A page is taken, free and clean (reads as zero), or free and dirty.  dirty is a subset of free.
 */
#ifndef STOOK_PAGE_BLOCK_H
#define STOOK_PAGE_BLOCK_H

#include "base/list.h"
#include "page/arena.h"

enum {
    BLOCK_WORDS = BLOCK_PAGES / 64,
    BLOCK_NOTES = BLOCK_PAGES * ARENA_NOTE, /* bytes at the metadata's end: a note a page */
    BLOCK_GRANULES = (BLOCK_META - BLOCK_NOTES) / ARENA_GRANULE,
    BLOCK_BIG = 8,        /* runs of at least an eighth of a block: no more begin in one */
    BLOCK_FIRST_GRANULE = /* before it: their map, 1: in use */
    (BLOCK_GRANULES / 8 + ARENA_GRANULE - 1) / ARENA_GRANULE,
};

enum block_state {
    BLOCK_UNUSED, /* never taken into use; or in its first span, and nothing of the header is written */
    BLOCK_FREE, /* no page taken */
    BLOCK_RUNS, /* cut into runs */
    BLOCK_SPAN, /* part of a span; or busy: its memory is being given back */
};

struct block {
    struct list bucket; /* RUNS: by the longest free run; FREE and dirty: the zone's warm list */
    struct list soiled; /* RUNS with dirty pages: by their number */
    uint64_t free[BLOCK_WORDS];
    uint64_t dirty[BLOCK_WORDS];
    uint16_t nfree, ndirty;
    uint16_t longest; /* no free run is longer; exact after block_measure() */
    uint8_t state;
    uint8_t runs_at, soiled_at; /* 1 + the bucket it is on, in the zone's lists; 0: on none */
    uint16_t shown;             /* pages from the first on that may be used */
    uint16_t meta_short;        /* so many consecutive granules are not free; 0: not known */
    uint8_t kind;               /* RUNS: the zone_kind that it is cut for */
    bool huge; /* huge pages were asked for; else they were refused, or nothing was said */
    bool home; /* `huge` of the blocks around it: another value splits a mapping */
    uint32_t meta_hint, meta_high; /* granules: search start, one past the highest ever used */
    bool moved;                    /* its pages were first mapped elsewhere: that, too */
    /* Runs of many pages that begin in it (large/begin.c): their owners'.  0: none. */
    uint32_t big[BLOCK_BIG];
    uint64_t span_note; /* of the span that begins here, if one was ever written (arena_note()) */
};
_Static_assert(sizeof(struct block) <= BLOCK_HEADER,
               "a block's header has its place in the window");

/* First page of `pages` free ones at a multiple of `align`, dirty ones first; or -1. */
int block_find(const struct block *block, unsigned pages, unsigned align);
/* Takes [at, at+pages); returns how many of them were dirty. */
unsigned block_take(struct block *block, unsigned at, unsigned pages);
/* Frees [at, at+pages), dirty or clean. */
void block_put(struct block *block, unsigned at, unsigned pages, bool dirty);
bool block_is_free(const struct block *block, unsigned at, unsigned pages);
/* Makes `longest` exact. */
void block_measure(struct block *block);
/* The next run of pages in a mask, from *at on; its pages, or 0. */
unsigned block_next_run(const uint64_t mask[BLOCK_WORDS], unsigned *at);
/* Consecutive granules, or 0 when the metadata is full, which the block remembers until some are put back. */
uint32_t block_take_meta(struct block *block, uint64_t *map, uint32_t granules);
void block_put_meta(struct block *block, uint64_t *map, uint32_t at, uint32_t granules);
/* Whether so many may be had, as far as the header says. */
static inline bool block_may_take_meta(const struct block *block, uint32_t granules)
{
    return block->meta_short == 0 || granules < block->meta_short;
}

#endif
