/* SPDX-License-Identifier: MIT */
/*
 * zone_warm.c - how much free memory stays resident, and what of it goes back.
 *
 * A zone keeps warm pages up to a limit that it learns.  The limit begins low.  Pages that go back to the
 * kernel are owed: if the program needs as many again, the limit rises by half of them.  So pages do not go
 * back and come again a moment later, over and over.  Two things lower it: pages that go
 * back, of which one in eight counts, and a turn of the program's pages during which some warm pages were
 * never needed.  So a program that only frees ends with little, one that breathes keeps what it needs, and
 * one that has become smaller does not keep what it needed once.
 */
#include "base/placed.h"
#include "base/raw.h"
#include "os/os.h"
#include "page/arena_kept.h"
#include "page/zone.h"

#include <string.h>

enum {
    ZONE_LIMIT_MIN = (2 << 20) / PAGE_SIZE, /* pages: where the limit begins */
    ZONE_LIMIT_SHARE =
        4, /* of the most pages in use, one in so many may be warm beyond the reserve, */
    ZONE_CREST_SHARE =
        16, /* while that and what is in use exceed that most by one in so many at most */
    ZONE_SLACK = (1 << 20) / PAGE_SIZE, /* pages, beside an eighth, before any go back */
    ZONE_RISE = 2,                      /* one of so many missed pages raises the limit, */
    ZONE_RISE_SPAN = 1,                 /* of a span's each, */
    ZONE_FALL = 8,                      /* one of so many that go back lowers it */
    ZONE_TURN =
        (8 << 20) / PAGE_SIZE, /* pages taken, beside twice those that are there, are a turn */
    ZONE_HOLLOW = 8,           /* log2 of the free pages for which a block loses its huge page */
};

/* Warm, too, and out of their blocks (arena_kept.h). */
struct arena_kept zone_kept_row[KEPT_ROWS] LARGE_BSS;

/* ---- the limit ------------------------------------------------------------------------------ */

static size_t zone_least(const struct zone *zone)
{
    return zone->reserve_pages < ZONE_LIMIT_MIN ? zone->reserve_pages : ZONE_LIMIT_MIN;
}

/* The most pages in use in this turn and the last one. */
static size_t zone_crest(const struct zone *zone)
{
    return zone->crest_pages > zone->crest_before ? zone->crest_pages : zone->crest_before;
}

static bool zone_learns(const struct zone *zone)
{
    return zone_all.learns && zone->reserve_pages > 0;
}

size_t zone_most(const struct zone *zone)
{
    size_t share = zone_crest(zone) / ZONE_LIMIT_SHARE;

    return zone_learns(zone) && share > zone->reserve_pages ? share : zone->reserve_pages;
}

/* Of what the limit has learned, what holds while so much is in use: as much as the program had a moment ago. */
size_t zone_limit(const struct zone *zone, size_t used)
{
    size_t crest = zone_crest(zone), limit = zone->limit_pages;
    size_t room =
        crest + crest / ZONE_CREST_SHARE > used ? crest + crest / ZONE_CREST_SHARE - used : 0;

    if (!zone_learns(zone))
        return limit;
    if (room < zone->reserve_pages)
        room = zone->reserve_pages;
    return limit < room ? limit : room;
}

size_t zone_slack(size_t limit)
{
    return limit / 8 + (limit / 2 < ZONE_SLACK ? limit / 2 : ZONE_SLACK);
}

void zone_set_reserve(struct zone *zone, size_t pages)
{
    zone->reserve_pages = pages;
    zone->limit_pages = zone_all.learns ? zone_least(zone) : pages;
    zone->owed_pages = zone->turn_pages = 0;
    zone->idle_pages = zone->warm_pages;
}

/* Pages came from the OS.  What was given back before, and is missed now, raises the limit. */
static void zone_miss(struct zone *zone, size_t pages, size_t rise)
{
    size_t most = zone_most(zone), owed = zone->owed_pages;

    zone->missed += pages * PAGE_SIZE;
    zone->owed_pages -= pages < owed ? pages : owed;
    zone->limit_pages += owed / rise - zone->owed_pages / rise; /* page by page, too */
    if (zone->limit_pages > most)
        zone->limit_pages = most;
}

void zone_count_huge(struct zone *zone, struct block *block)
{
    size_t pages = (size_t)(BLOCK_PAGES - block->ndirty);

    if (!block->huge || pages == 0)
        return;
    zone->warm_pages += pages;
    zone_miss(zone, pages, ZONE_RISE);
    memcpy(block->dirty, block->free, sizeof(block->dirty));
    block->ndirty = BLOCK_PAGES;
}

/*
 * A turn is over: the program has taken twice as many pages as there are, and some warm pages were idle all
 * the time.  Half of them is too much.
 */
static void zone_turn(struct zone *zone)
{
    size_t idle = zone->idle_pages / 2, least = zone_least(zone);
    size_t kept = zone->high_pages > idle ? zone->high_pages - idle : 0;

    if (idle > ZONE_SLACK / 2 && kept < zone->limit_pages)
        zone->limit_pages = kept > least ? kept : least;
    zone->turn_pages = 0;
    zone->idle_pages = zone->high_pages = zone->warm_pages;
    zone->crest_before = zone->crest_pages;
    zone->crest_pages = zone->used_pages;
}

/* Spans of a program that had more in use than may be warm in any case: what is in use bounds the limit then. */
static size_t zone_rise(const struct zone *zone, size_t pages)
{
    return pages > BLOCK_PAGES && zone_crest(zone) > zone->reserve_pages ? ZONE_RISE_SPAN
                                                                         : ZONE_RISE;
}

void zone_account_take(struct zone *zone, size_t pages, size_t dirty)
{
    zone_set_used(zone, zone->used_pages + pages);
    if (zone->used_pages > zone->peak_pages)
        zone->peak_pages = zone->used_pages;
    if (zone->used_pages > zone->crest_pages)
        zone->crest_pages = zone->used_pages;
    zone->warm_pages -= dirty;
    if (dirty < pages)
        zone_miss(zone, pages - dirty, zone_rise(zone, pages));
    if (zone->warm_pages < zone->idle_pages)
        zone->idle_pages = zone->warm_pages;
    zone->turn_pages += pages;
    if (__builtin_expect(zone->turn_pages > ZONE_TURN + 2 * (zone->used_pages + zone->warm_pages),
                         0) &&
        zone_all.learns)
        zone_turn(zone);
}

/* ---- giving back ---------------------------------------------------------------------------- */

void zone_begin_purge(struct zone *zone)
{
    atomic_fetch_add_explicit(&zone->purging, 1, memory_order_relaxed);
}

void zone_end_purge(struct zone *zone)
{
    atomic_fetch_sub_explicit(&zone->purging, 1, memory_order_relaxed);
    if (zone->awaited) {
        zone->awaited = false;
        raw_wake(&zone->purging, INT32_MAX);
    }
}

/* Gives one block's dirty pages back; the lock is dropped meanwhile, the pages are taken. */
LOCK_UNCHECKED static size_t zone_purge_block(struct zone *zone, struct block *block)
{
    uint64_t mask[BLOCK_WORDS];
    uint32_t index = zone_block_index(block);
    unsigned pages = block->ndirty, taken;
    /* Of larger pages of the kernel one goes back that is free as a whole, with the clean ones that were zeroed in
       place when it was not. */
    bool wide = os_page_size() > PAGE_SIZE;
    bool whole = block->state == BLOCK_FREE, meta = whole && zone_has_meta(zone, index);
    bool noted = atomic_load_explicit(&zone_all.noted, memory_order_relaxed);
    /* Or khugepaged would fill the holes again.  Decided under the lock, like all fields of a block:
       another thread may give back other pages of it meanwhile. */
    bool split = !whole && (!block->home || zone_may_split()) && zone_set_huge(block, false);

    memcpy(mask, wide ? block->free : block->dirty, sizeof(mask));
    taken = wide ? block->nfree : pages;
    for (int i = 0; i < BLOCK_WORDS; i++)
        block->free[i] &= ~mask[i];
    memset(block->dirty, 0, sizeof(block->dirty));
    block->nfree = (uint16_t)(block->nfree - taken);
    block->ndirty = 0;
    zone->warm_pages -= pages;
    zone->purged += (size_t)pages * PAGE_SIZE;
    if (whole)
        zone_mark_used(zone, block, BLOCK_SPAN);
    zone_file(zone, block);
    zone_begin_purge(zone);
    lock_drop(&zone->lock, LOCK_ARENA);

    if (split)
        os_huge(pagemap_block(index), BLOCK_SIZE, false);
    for (unsigned at = 0, n; (n = block_next_run(mask, &at)) > 0; at += n)
        os_release(pagemap_block(index) + (size_t)at * PAGE_SIZE, (size_t)n * PAGE_SIZE);
    if (meta && (block->meta_high > 0 || noted)) /* no granule is in use: zeros say so, too */
        os_release(pagemap_meta(index), BLOCK_META);

    lock_take(&zone->lock, LOCK_ARENA);
    zone_end_purge(zone);
    if (whole)
        block->meta_high = 0;
    for (int i = 0; i < BLOCK_WORDS; i++)
        block->free[i] |= mask[i];
    block->nfree = (uint16_t)(block->nfree + taken);
    block_measure(block);
    if (whole)
        zone_mark_free(zone, block);
    else
        zone_file(zone, block);
    return (size_t)pages * PAGE_SIZE;
}

/* Of those with so many free warm pages.  A huge page is given up only if half of it is free, or all has to go. */
static struct block *zone_most_soiled(struct zone *zone, int bucket, bool all)
{
    struct list *list = &zone->soiled[bucket];

    if (list_empty(list) && (all || bucket >= ZONE_HOLLOW))
        list += ZONE_BUCKETS;
    return list_empty(list) ? NULL : LIST_ENTRY(list->prev, struct block, soiled);
}

/* Whole blocks go first, those that were freed first before others; then the pages of those that have most. */
size_t zone_purge(struct zone *zone, size_t limit)
{
    bool all = limit == 0;
    size_t bytes = 0;

    while (zone->warm_pages > limit && !zone_is_awaited(zone)) {
        struct block *block = NULL;
        for (int i = 0; !block && i < ZONE_KINDS; i++)
            if (!list_empty(&zone->warm[i]))
                block = LIST_ENTRY(zone->warm[i].prev, struct block, bucket);
        for (int i = ZONE_BUCKETS - 1; !block && i >= 0; i--)
            block = zone_most_soiled(zone, i, all);
        if (!block) /* what is left stays, or is being given back by others */
            break;
        bytes += zone_purge_block(zone, block);
    }
    return bytes;
}

bool zone_is_awaited(const struct zone *zone)
{
    return zone->awaited || lock_forked();
}

void zone_purge_more(struct zone *zone)
{
    size_t least = zone_least(zone), most = zone_most(zone), limit, kept, gone;

    if (zone->limit_pages > most)
        zone->limit_pages = most;
    limit = zone_limit(zone, zone->used_pages);
    kept = arena_kept_in(KEPT_SPAN, (unsigned)(zone - zone_all.zone));
    limit -= kept < limit ? kept : limit;
    if (zone->high_pages < zone->warm_pages + kept)
        zone->high_pages = zone->warm_pages + kept;
    if (zone->warm_pages <= limit + zone_slack(limit))
        return;
    gone = zone_purge(zone, limit) / PAGE_SIZE;
    zone->owed_pages += gone;
    limit = zone->limit_pages; /* of other threads meanwhile */
    zone->limit_pages = limit > least + gone / ZONE_FALL ? limit - gone / ZONE_FALL : least;
}
