/* SPDX-License-Identifier: MIT */
/*
 * zone_stock.c - pages for threads that allocate while a fork has the zone's lock.
 *
 * The forking thread sets some free blocks aside when it has the lock.  While it holds that, each is cut
 * from its start by compare-and-swap of one word: how many pages and granules are taken.  At the end
 * of the fork, still under the lock, parent and child close the words and account what was taken: then
 * these are blocks like others.  The word is one, so the child sees a cut either done or not begun.
 *
 * What is taken is not zeroed, and its blocks are in no core dump until the fork has ended.
 */
#include "page/zone.h"

enum {
    STOCK_LEAST = 2,      /* blocks */
    STOCK_PAGES = 0xffff, /* of the word; above it the granules */
    STOCK_GRANULE_SHIFT = 16,
};
static const uint32_t stock_closed = UINT32_MAX, stock_none = BLOCK_PAGES;

void zone_stock_init(struct zone *zone)
{
    for (unsigned i = 0; i < ZONE_STOCK; i++)
        atomic_store_explicit(&zone->stock[i].taken, stock_closed, memory_order_relaxed);
}

void zone_stock_open(struct zone *zone, bool some)
{
    for (unsigned i = 0; i < ZONE_STOCK; i++) {
        struct zone_stock *stock = &zone->stock[i];
        /* The zone grows for as many as it takes to have one for slabs alone. */
        struct block *block = some ? zone_set_aside(zone, i < STOCK_LEAST) : NULL;
        stock->index = block ? zone_block_index(block) : UINT32_MAX;
        /* Release: the index, to a thread that finds the lock a fork's. */
        atomic_store_explicit(&stock->taken, block ? 0 : stock_none, memory_order_release);
    }
    zone->stocked = true;
}

static void zone_stock_account(struct zone *zone, struct block *block, uint32_t taken)
{
    unsigned pages = taken & STOCK_PAGES, granules = taken >> STOCK_GRANULE_SHIFT;

    if (pages == 0) {
        zone_mark_free(zone, block);
        return;
    }
    block->state = BLOCK_RUNS;
    block->kind = ZONE_LOOSE;
    zone_count_huge(zone, block);
    if (pages > block->shown)
        zone_show(block, pages);
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
    for (unsigned i = ZONE_STOCK; zone->stocked && i-- > 0;) {
        struct zone_stock *stock = &zone->stock[i];
        uint32_t taken =
            atomic_exchange_explicit(&stock->taken, stock_closed, memory_order_acq_rel);
        if (stock->index != UINT32_MAX)
            zone_stock_account(zone, zone_block(stock->index), taken);
    }
    zone->stocked = false;
}

/* Of one block. */
static enum zone_cut zone_stock_cut_one(struct zone_stock *stock, unsigned pages, unsigned align,
                                        unsigned granules, int *at, uint32_t *granule)
{
    uint32_t word = atomic_load_explicit(&stock->taken, memory_order_acquire), first, meta;

    do {
        if (word == stock_closed)
            return ZONE_CUT_AGAIN;
        first = ((word & STOCK_PAGES) + align - 1) & ~(align - 1);
        meta = BLOCK_FIRST_GRANULE + (word >> STOCK_GRANULE_SHIFT);
        if (first + pages > BLOCK_PAGES || meta + granules > BLOCK_GRANULES)
            return ZONE_CUT_NONE;
    } while (!atomic_compare_exchange_weak_explicit(
        &stock->taken, &word,
        (first + pages) | (meta + granules - BLOCK_FIRST_GRANULE) << STOCK_GRANULE_SHIFT,
        memory_order_acq_rel, memory_order_acquire));
    *at = (int)first;
    *granule = meta;
    return ZONE_CUT_DONE;
}

enum zone_cut zone_stock_cut(struct zone *zone, const struct arena_ask *ask, struct block **block,
                             int *at, uint32_t *granule)
{
    /* Slabs have no other place, large objects do (page/outside.h). */
    unsigned granules = (unsigned)((ask->meta_bytes + ARENA_GRANULE - 1) / ARENA_GRANULE);
    unsigned blocks = granules > 0 ? ZONE_STOCK : 1;
    enum zone_cut cut = ZONE_CUT_NONE;

    if (!lock_has_fork(&zone->lock))
        return ZONE_CUT_AGAIN;
    if (zone - zone_all.zone >= pagemap.zones / 2)
        return ZONE_CUT_NONE;
    for (unsigned i = blocks; i-- > 0 && cut == ZONE_CUT_NONE;) {
        cut = zone_stock_cut_one(&zone->stock[i], ask->pages, ask->align, granules, at, granule);
        if (cut == ZONE_CUT_DONE)
            *block = zone_block(zone->stock[i].index);
    }
    return cut;
}
