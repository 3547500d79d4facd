/* SPDX-License-Identifier: MIT */
/*
 * begin.h - where large objects begin, and how many pages they have.
 *
 * A run of few pages has its number in the page map, in the entry of its first page, with no cache.  A run of
 * BEGIN_BIG pages and more has its place and number in the header of its block: the page map would be
 * a page for every two blocks.  A span has its number of blocks beside its first block's zone, since
 * headers of blocks in spans are not touched before the span is freed.  So an object of which one
 * byte is touched costs at most a sixteenth of a page besides.
 *
 * No lock: the object's owner writes, and of two threads that free it at once one clears it.
 */
#ifndef STOOK_LARGE_BEGIN_H
#define STOOK_LARGE_BEGIN_H

#include "page/block.h"

#include <stdbool.h>

enum {
    BEGIN_BIG = BLOCK_PAGES / BLOCK_BIG,
    BEGIN_EDGES = 1 << 15, /* beside a run's pages: it has edges */
};

/* A large object's pages; of a span, those of its blocks.  blocks 0: a run, with edges (edge.h) or without. */
struct extent {
    size_t pages, blocks; /* words: a function stores them whole, and its caller loads them so */
    bool edges;
};

/* {0, 0}: no large object begins at `object`, which is any pointer. */
struct extent begin_find(const void *object);
/* From here on it is found. */
void begin_set_large(void *object, struct extent extent);
static inline void begin_set(void *object, struct extent extent)
{
    if (extent.pages >= BEGIN_BIG || extent.edges)
        begin_set_large(object, extent);
    else
        __atomic_store_n(pagemap_at(object), pagemap_entry(0, (uint32_t)extent.pages),
                         __ATOMIC_RELEASE);
}
/* It is found no more; {0, 0}: it was not, or another thread was first. */
struct extent begin_clear(void *object);
/* It was resized in place; a run stays a run. */
void begin_change(void *object, struct extent extent);

#endif
