/* SPDX-License-Identifier: MIT */
/*
 * zone_stock.c - pages for threads that allocate while a fork has the zone's lock.
 *
 * The forking thread sets some free blocks aside when it has the lock.  While it holds that, each is cut
 * from its start by compare-and-swap of one word: which block, how many pages and granules are taken.
 * At the end of the fork, still under the lock, parent and child close the words and account what was
 * taken: then these are blocks like others.  The word is one, so the child sees a cut either done or not
 * begun, and a thread that sleeps until the next fork cuts from the block that this one has set aside.
 *
 * What is taken is not zeroed.
 */
#include "page/zone.h"

enum {
    STOCK_LEAST = 2,      /* blocks */
    STOCK_PAGES = 0xffff, /* of the word; above them the granules and the block's index */
    STOCK_GRANULE_SHIFT = 16,
    STOCK_INDEX_SHIFT = 32,
};
/* The words of a zone that no fork has, and of one that has no block to set aside; no other is as low, since a
 * program's blocks do not begin with the window. */
static const uint64_t stock_closed = 0, stock_none = 1;

void zone_stock_open(struct zone *zone, bool some)
{
    for (unsigned i = 0; i < ZONE_STOCK; i++) {
        /* The zone grows for as many as it takes to have one for slabs alone. */
        struct block *block = some ? zone_set_aside(zone, i < STOCK_LEAST) : NULL;
        uint64_t word = block ? (uint64_t)zone_block_index(block) << STOCK_INDEX_SHIFT : stock_none;
        /* Release: the block, to a thread that reads the word. */
        atomic_store_explicit(&zone->stock[i], word, memory_order_release);
    }
}

static unsigned stock_pages(uint64_t word)
{
    return word & STOCK_PAGES;
}

static unsigned stock_granules(uint64_t word)
{
    return (uint32_t)word >> STOCK_GRANULE_SHIFT;
}

static struct block *stock_block(uint64_t word)
{
    return zone_block((uint32_t)(word >> STOCK_INDEX_SHIFT));
}

static void zone_stock_account(struct zone *zone, uint64_t word)
{
    struct block *block = stock_block(word);
    unsigned pages = stock_pages(word), granules = stock_granules(word);

    if (pages == 0) {
        zone_mark_free(zone, block);
        return;
    }
    block->state = BLOCK_RUNS;
    zone_account_take(zone, pages, block_take(block, 0, pages));
    if (granules > 0) {
        block->meta_hint = 0;
        (void)block_take_meta(block, zone_granules(zone_block_index(block)), granules);
    }
    block_measure(block);
    zone_file(zone, block);
}

void zone_stock_close(struct zone *zone)
{
    for (unsigned i = ZONE_STOCK; i-- > 0;) {
        uint64_t word =
            atomic_exchange_explicit(&zone->stock[i], stock_closed, memory_order_acq_rel);
        if (word > stock_none)
            zone_stock_account(zone, word);
    }
}

/* Of one block; *done: pages and granules of it are the caller's.  False: there is no fork any more. */
static bool stock_cut(_Atomic uint64_t *stock, struct zone_cut *cut, bool *done)
{
    const struct arena_ask *ask = cut->ask;
    uint64_t word = atomic_load_explicit(stock, memory_order_acquire), next;
    unsigned first, granule;

    do {
        first = (stock_pages(word) + ask->align - 1) & ~(ask->align - 1);
        granule = BLOCK_FIRST_GRANULE + stock_granules(word);
        if (word <= stock_none || first + ask->pages > BLOCK_PAGES ||
            granule + cut->granules > BLOCK_GRANULES)
            return word != stock_closed;
        next = (word & ~(uint64_t)STOCK_PAGES) + ((uint64_t)cut->granules << STOCK_GRANULE_SHIFT) +
               first + ask->pages;
    } while (!atomic_compare_exchange_weak_explicit(stock, &word, next, memory_order_acq_rel,
                                                    memory_order_acquire));
    cut->block = stock_block(word);
    cut->at = first;
    cut->granule = granule;
    *done = true;
    return true;
}

bool zone_stock_cut(struct zone *zone, struct zone_cut *cut, bool *done)
{
    if (!lock_has_fork(&zone->lock))
        return false;
    /* Slabs have no other place, large objects do (large/outside.h). */
    for (unsigned i = cut->granules > 0 ? ZONE_STOCK : 1; i-- > 0 && !*done && !zone_is_own(zone);)
        if (!stock_cut(&zone->stock[i], cut, done))
            return false;
    return true;
}
