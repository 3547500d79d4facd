/* SPDX-License-Identifier: MIT */
/*
 * zone_warm.c - how much free memory stays resident, and what of it goes back.
 *
 * A zone keeps warm pages up to a limit that it learns.  The limit begins low.  Pages that go back to the kernel are
 * owed.  If the program needs as many again, the limit rises by half of them, or by all if more than the reserve was in
 * use.  So pages do not go back and come again a moment later, over and over, however many they are.  A turn of the
 * program's pages during which some warm pages were never needed lowers the limit, and so does a second in which none
 * was taken (reserve/idle.c).  So a program that only frees ends with little, one that breathes keeps what it needs, and
 * one that has become smaller does not keep what it needed once.
 *
 * Calls that free pages give back in small steps: at most ZONE_RUNS system calls each.  Once the limit is exceeded by an
 * eighth, these go on until it is reached.
 */
#include "base/placed.h"
#include "base/raw.h"
#include "os/os.h"
#include "page/arena_kept.h"
#include "page/zone.h"

#include <string.h>

enum {
    ZONE_LIMIT_MIN = (2 << 20) / PAGE_SIZE, /* pages: where the limit begins */
    ZONE_CREST_SHARE = 16,                  /* one of so many in use may be warm beyond the crest */
    ZONE_SCATTERED = 4,                     /* and one of so many of the reserve, behind spans */
    ZONE_SLACK = (1 << 20) / PAGE_SIZE,     /* pages, beside an eighth, before any go back */
    ZONE_RISE = 2,                          /* one of so many missed pages raises a low limit */
    ZONE_TURN =
        (8 << 20) / PAGE_SIZE, /* pages taken, beside twice those that are there, are a turn */
    ZONE_HOLLOW = 8,           /* log2 of the free pages for which a block loses its huge page */
    ZONE_RUNS = 4,             /* runs that one free gives back at most, a system call each, … */
    ZONE_STEP = (128 << 10) / PAGE_SIZE, /* … of so many pages, or twice those that are freed */
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

/* So many warm pages beside those in use are about as much as the program had a moment ago. */
static size_t zone_room(const struct zone *zone, size_t used)
{
    size_t crest = zone_crest(zone), most = crest + crest / ZONE_CREST_SHARE;

    return most > used ? most - used : 0;
}

/* Of what the limit has learned, what holds while so much is in use. */
size_t zone_limit(const struct zone *zone, size_t used)
{
    size_t limit = zone->limit_pages, room = zone_room(zone, used);

    if (!zone_learns(zone))
        return limit;
    if (room < zone->reserve_pages)
        room = zone->reserve_pages;
    return limit < room ? limit : room;
}

size_t zone_slack(size_t limit)
{
    size_t eighth = limit / 8 < 4 * ZONE_SLACK ? limit / 8 : 4 * ZONE_SLACK;

    return eighth + (limit / 2 < ZONE_SLACK ? limit / 2 : ZONE_SLACK);
}

void zone_set_reserve(struct zone *zone, size_t pages)
{
    zone->reserve_pages = pages;
    zone->limit_pages = zone_all.learns ? zone_least(zone) : pages;
    zone->owed_pages = zone->turn_pages = 0;
    zone->idle_pages = zone->warm_pages;
}

/* Pages came from the OS.  What was given back before, and is missed now, raises the limit. */
static void zone_miss(struct zone *zone, size_t pages)
{
    size_t crest = zone_crest(zone), owed = zone->owed_pages;
    bool large = zone_learns(zone) && crest > zone->reserve_pages && !zone->refused;
    size_t rise = large ? 1 : ZONE_RISE, most = large ? crest : zone->reserve_pages;

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
    zone_miss(zone, pages);
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

    if (idle > ZONE_SLACK / 2)
        zone->limit_pages = zone->limit_pages > least + idle ? zone->limit_pages - idle : least;
    zone->turn_pages = 0;
    zone->idle_pages = zone->warm_pages;
    zone->crest_before = zone->crest_pages;
    zone->crest_pages = zone->used_pages;
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
        zone_miss(zone, pages - dirty);
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

/*
 * Gives a run of a block's dirty pages back, `most` of them; how many.  The lock is dropped meanwhile, the pages are
 * taken.  A huge page goes by one call: in parts it would have to be split.
 */
LOCK_UNCHECKED static size_t zone_purge_run(struct zone *zone, struct block *block, size_t most)
{
    uint32_t index = zone_block_index(block);
    bool wide = os_page_size() > PAGE_SIZE, huge = block->huge && block->ndirty == BLOCK_PAGES;
    bool whole = block->state == BLOCK_FREE, meta;
    bool noted = atomic_load_explicit(&zone_all.noted, memory_order_relaxed);
    /* Or khugepaged would fill the holes again.  Decided under the lock, like all fields of a block:
       another thread may give back other pages of it meanwhile. */
    bool split =
        !whole && (!block->home || zone_may_split()) && zone_set_like(block, false, block->moved);
    unsigned at = 0, pages = block_next_run(block->dirty, &at), dirty;

    /* Of larger pages of the kernel one goes back that is free as a whole, with the clean ones that were zeroed in
       place when it was not. */
    while (wide && at > 0 && block_is_free(block, at - 1, 1))
        at--;
    if (wide)
        pages = block_next_run(block->free, &at);
    else if (pages > most && !huge)
        pages = (unsigned)most;
    dirty = block_take(block, at, pages);
    zone->warm_pages -= dirty;
    zone->purged += (size_t)dirty * PAGE_SIZE;
    meta = whole && block->ndirty == 0 && zone_has_meta(zone, index);
    if (whole)
        zone_mark_used(zone, block, BLOCK_SPAN);
    zone_file(zone, block);
    zone_begin_purge(zone);
    lock_drop(&zone->lock, LOCK_ARENA);

    if (split)
        os_huge(pagemap_block(index), BLOCK_SIZE, false);
    os_release(pagemap_block(index) + (size_t)at * PAGE_SIZE, (size_t)pages * PAGE_SIZE);
    if (meta && (block->meta_high > 0 || noted)) /* no granule is in use: zeros say so, too */
        os_release(pagemap_meta(index), BLOCK_META);

    lock_take(&zone->lock, LOCK_ARENA);
    zone_end_purge(zone);
    if (meta)
        block->meta_high = 0;
    block_put(block, at, pages, false);
    if (whole)
        zone_mark_free(zone, block);
    else
        zone_file(zone, block);
    return dirty;
}

/* Of those with so many free warm pages.  A huge page is given up only if half of it is free, or all has to go. */
static struct block *zone_most_soiled(struct zone *zone, int bucket, bool all)
{
    struct list *list = &zone->soiled[bucket];

    if (list_empty(list) && (all || bucket >= ZONE_HOLLOW))
        list += ZONE_BUCKETS;
    return list_empty(list) ? NULL : LIST_ENTRY(list->prev, struct block, soiled);
}

/* The block that was begun; then whole blocks, those that were freed first before others; then those that have most. */
static struct block *zone_next_soiled(struct zone *zone, bool all)
{
    struct block *block = zone->begun;

    if (block && block->ndirty > 0 && (block->state == BLOCK_FREE || block->state == BLOCK_RUNS))
        return block;
    block = NULL;
    for (int i = 0; !block && i < ZONE_KINDS; i++)
        if (!list_empty(&zone->warm[i]))
            block = LIST_ENTRY(zone->warm[i].prev, struct block, bucket);
    for (int i = ZONE_BUCKETS - 1; !block && i >= 0; i--)
        block = zone_most_soiled(zone, i, all);
    return block;
}

__attribute__((cold)) size_t zone_purge(struct zone *zone, size_t limit, size_t runs, size_t most)
{
    size_t gone = 0;

    for (; zone->warm_pages > limit && runs > 0 && gone < most && !zone_is_awaited(zone); runs--) {
        zone->begun = zone_next_soiled(zone, limit == 0);
        if (!zone->begun) /* what is left stays, or is being given back by others */
            break;
        gone += zone_purge_run(zone, zone->begun, most - gone);
    }
    return gone;
}

bool zone_is_awaited(const struct zone *zone)
{
    return zone->awaited || lock_forked();
}

void zone_purge_more(struct zone *zone, size_t pages)
{
    size_t limit = zone_limit(zone, zone->used_pages);
    size_t kept = arena_kept_in(KEPT_SPAN, (unsigned)(zone - zone_all.zone));

    limit -= kept < limit ? kept : limit;
    if (zone->warm_pages <= limit)
        zone->begun = NULL;
    if (zone_all.learns && zone->warm_pages > (size_t)2 * ZONE_LIMIT_MIN)
        context_self()->due |= CONTEXT_DUE_WARM;
    if (zone->warm_pages > (zone->begun ? limit : limit + zone_slack(limit)))
        zone->owed_pages +=
            zone_purge(zone, limit, ZONE_RUNS, pages < ZONE_STEP / 2 ? ZONE_STEP : 2 * pages);
}

void zone_purge_scattered(struct zone *zone, size_t pages)
{
    size_t room = zone_room(zone, zone->used_pages), least = zone->reserve_pages / ZONE_SCATTERED;

    if (zone_learns(zone) && zone_all.huge != ZONE_HUGE_ALWAYS)
        zone->owed_pages += zone_purge(zone, room > least ? room : least, ZONE_RUNS, pages);
}
