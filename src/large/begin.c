/* SPDX-License-Identifier: MIT */
/*
 * begin.c - where large objects begin: a run in the page map's entry of its first page, a span in its first block's
 * word in the table of zones.
 */
#include "large/begin.h"

_Static_assert((int)BLOCK_PAGES < (int)BEGIN_EDGES,
               "a run's pages have their place beside the bit");

/* A run's entry in the page map. */
static uint32_t begin_entry(struct extent extent)
{
    return pagemap_entry(0, extent.pages | (extent.edges ? BEGIN_EDGES : 0));
}

static uint32_t *begin_span(const void *object)
{
    return &pagemap.zone[pagemap_index(object)];
}

struct extent begin_find(const void *object)
{
    uint32_t entry, run, blocks;

    if (!pagemap_covers(object) || (uintptr_t)object % PAGE_SIZE != 0)
        return (struct extent){0};
    entry = __atomic_load_n(pagemap_at(object), __ATOMIC_RELAXED);
    if (pagemap_cache(entry) != 0)
        return (struct extent){0};
    run = pagemap_granule(entry);
    if (run != 0 || (uintptr_t)object % BLOCK_SIZE != 0)
        return (struct extent){run & (BEGIN_EDGES - 1), 0, (run & BEGIN_EDGES) != 0};
    blocks = __atomic_load_n(begin_span(object), __ATOMIC_ACQUIRE) >> PAGEMAP_ZONE_BITS;
    return (struct extent){blocks * BLOCK_PAGES, blocks, false};
}

void begin_set(void *object, struct extent extent)
{
    uint32_t *word = begin_span(object);

    if (extent.blocks > 0)
        __atomic_store_n(word, (*word & PAGEMAP_ZONE) | extent.blocks << PAGEMAP_ZONE_BITS,
                         __ATOMIC_RELEASE);
    else
        __atomic_store_n(pagemap_at(object), begin_entry(extent), __ATOMIC_RELEASE);
}

struct extent begin_clear(void *object)
{
    struct extent extent = begin_find(object);
    uint32_t had = begin_entry(extent);
    bool done;

    if (extent.blocks > 0)
        done = __atomic_fetch_and(begin_span(object), PAGEMAP_ZONE, __ATOMIC_ACQ_REL) >>
                   PAGEMAP_ZONE_BITS !=
               0;
    else
        done = extent.pages > 0 && __atomic_compare_exchange_n(pagemap_at(object), &had, 0, false,
                                                               __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
    return done ? extent : (struct extent){0};
}
