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
 * What is taken is not zeroed, and its blocks are in no core dump until the fork has ended.  All of their
 * pages may be used from the beginning.
 */
#include "os/os.h"
#include "page/zone.h"

enum {
    STOCK_LEAST = 2,      /* blocks */
    STOCK_PAGES = 0xffff, /* of the word; above them the granules and the block's index */
    STOCK_GRANULE_SHIFT = 16,
    STOCK_INDEX_SHIFT = 32,
};
/* The words of a zone that no fork has, and of one that has no block to set aside. */
static const uint64_t stock_closed = UINT64_MAX, stock_none = UINT64_MAX - 1;

void zone_stock_init(struct zone *zone)
{
    for (unsigned i = 0; i < ZONE_STOCK; i++)
        atomic_store_explicit(&zone->stock[i].word, stock_closed, memory_order_relaxed);
}

void zone_stock_open(struct zone *zone, bool some)
{
    for (unsigned i = 0; i < ZONE_STOCK; i++) {
        /* The zone grows for as many as it takes to have one for slabs alone. */
        struct block *block = some ? zone_set_aside(zone, i < STOCK_LEAST) : NULL;
        uint64_t word = block ? (uint64_t)zone_block_index(block) << STOCK_INDEX_SHIFT : stock_none;
        /* Release: the block, to a thread that reads the word. */
        atomic_store_explicit(&zone->stock[i].word, word, memory_order_release);
    }
    zone->stocked = true;
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
    block->kind = ZONE_LOOSE;
    zone_count_huge(zone, block);
    (void)zone_show(block, pages);
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
        uint64_t word =
            atomic_exchange_explicit(&zone->stock[i].word, stock_closed, memory_order_acq_rel);
        if (word != stock_none)
            zone_stock_account(zone, word);
    }
    zone->stocked = false;
}

/* Of one block. */
static enum zone_cut zone_stock_cut_one(struct zone_stock *stock, unsigned pages, unsigned align,
                                        unsigned granules, struct block **block, int *at,
                                        uint32_t *granule)
{
    uint64_t word = atomic_load_explicit(&stock->word, memory_order_acquire), next;
    unsigned first, meta;

    do {
        if (word == stock_closed)
            return ZONE_CUT_AGAIN;
        if (word == stock_none)
            return ZONE_CUT_NONE;
        first = (stock_pages(word) + align - 1) & ~(align - 1);
        meta = stock_granules(word);
        if (first + pages > BLOCK_PAGES || BLOCK_FIRST_GRANULE + meta + granules > BLOCK_GRANULES)
            return ZONE_CUT_NONE;
        next = (word >> STOCK_INDEX_SHIFT) << STOCK_INDEX_SHIFT |
               (uint64_t)(meta + granules) << STOCK_GRANULE_SHIFT | (first + pages);
    } while (!atomic_compare_exchange_weak_explicit(&stock->word, &word, next, memory_order_acq_rel,
                                                    memory_order_acquire));
    *block = stock_block(word);
    *at = (int)first;
    *granule = BLOCK_FIRST_GRANULE + meta;
    return ZONE_CUT_DONE;
}

enum zone_cut zone_stock_cut(struct zone *zone, const struct arena_ask *ask, struct block **block,
                             int *at, uint32_t *granule)
{
    /* Slabs have no other place, large objects do (large/outside.h). */
    unsigned granules = (unsigned)((ask->meta_bytes + ARENA_GRANULE - 1) / ARENA_GRANULE);
    unsigned blocks = granules > 0 ? ZONE_STOCK : 1;
    enum zone_cut cut = ZONE_CUT_NONE;

    if (!lock_has_fork(&zone->lock))
        return ZONE_CUT_AGAIN;
    if (zone - zone_all.zone >= pagemap.zones / 2)
        return ZONE_CUT_NONE;
    for (unsigned i = blocks; i-- > 0 && cut == ZONE_CUT_NONE;)
        cut = zone_stock_cut_one(&zone->stock[i], ask->pages, ask->align, granules, block, at,
                                 granule);
    return cut;
}
