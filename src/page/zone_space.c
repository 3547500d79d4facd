/* SPDX-License-Identifier: MIT */
/*
 * zone_space.c - the address space of free blocks goes back to the OS, and is mapped again at the same
 * place when the blocks are taken.
 *
 * A free block without dirty pages is either mapped or gone (a bit in zone->map): then its pages are not
 * mapped, nor its metadata as a rule, but its header, its part of the page map and its word with the zone
 * are.  Gone blocks stay in the free map.  Only blocks that are free are ever gone: a thread
 * that takes blocks calls zone_remap() first, under the lock.
 *
 * Blocks go in runs of neighbours, from the top of the zone down, since threads that take blocks
 * search from the bottom up.  A run between mapped blocks makes one mapping two, and so does its
 * metadata; ZONE_HOLES bounds how many such holes the process has.
 */
#include "os/os.h"
#include "page/window.h"
#include "page/zone.h"

#include <errno.h>
#include <string.h>

enum {
    ZONE_KEEP_MIN = 32,  /* free blocks that stay mapped at least, */
    ZONE_KEEP_SHARE = 8, /* or this share of what is in use; blocks go beyond twice as many */
    ZONE_STEP = 4,       /* of these, one in so many are mapped at a time */
    ZONE_HOLES = 128,    /* in the whole process; each is a mapping more, and one of metadata */
    ZONE_HOLE_WIDE = 4,  /* blocks: narrower runs get half of these at most */
};

static bool zone_gone_beside(const struct zone *zone, uint32_t index)
{
    return index >= zone->first && index < zone->end && zone_is_gone(zone, index);
}

/* How many holes more there are when the mapped run [first, first + n) goes: -1, 0 or 1. */
static int zone_holes_more(const struct zone *zone, uint32_t first, uint32_t n)
{
    return 1 - (zone_gone_beside(zone, first - 1) ? 1 : 0) -
           (zone_gone_beside(zone, first + n) ? 1 : 0);
}

/* Blocks of a run, all of which were mapped or all gone, are now the other. */
static void zone_set_gone(struct zone *zone, uint32_t first, uint32_t n, bool gone)
{
    uint32_t more = (uint32_t)zone_holes_more(zone, first, n);

    for (uint32_t i = first; i < first + n; i++)
        zone->map[i / 64].gone ^= (uint64_t)1 << i % 64;
    atomic_fetch_add_explicit(&zone_all.holes, gone ? more : -more, memory_order_relaxed);
}

/* Free blocks that stay mapped. */
static uint32_t zone_share(const struct zone *zone)
{
    uint32_t share = (uint32_t)(zone->used_pages / BLOCK_PAGES / ZONE_KEEP_SHARE);

    return share < ZONE_KEEP_MIN ? ZONE_KEEP_MIN : share;
}

/* ---- giving back ---------------------------------------------------------------------------- */

/* Free, mapped, and without a dirty page. */
static bool zone_is_clean(const struct zone *zone, uint32_t i)
{
    uint64_t word =
        (zone->map[i / 64].free[0] | zone->map[i / 64].free[1]) & ~zone->map[i / 64].gone;

    return (word >> i % 64 & 1) && zone_block(i)->ndirty == 0;
}

/*
 * The highest run of clean blocks below `end`, at most `most` of them, all with metadata or all without; how
 * many, from *first on.
 */
static uint32_t zone_clean_run(const struct zone *zone, uint32_t end, uint32_t most,
                               uint32_t *first)
{
    uint32_t n = 0;

    while (end > zone->first && n < most) {
        uint32_t i = end - 1;
        if (n == 0 && i % 64 == 63 &&
            !((zone->map[i / 64].free[0] | zone->map[i / 64].free[1]) & ~zone->map[i / 64].gone)) {
            end = i - 63 > zone->first ? i - 63 : zone->first;
            continue;
        }
        if (zone_is_clean(zone, i) &&
            (n == 0 || zone_has_meta(zone, i) == zone_has_meta(zone, end)))
            n++;
        else if (n > 0)
            break;
        end = i;
    }
    *first = end;
    return n;
}

static bool zone_may_hole(const struct zone *zone, uint32_t first, uint32_t n)
{
    uint32_t most = n >= ZONE_HOLE_WIDE ? ZONE_HOLES : ZONE_HOLES / 2;

    return zone_holes_more(zone, first, n) <= 0 ||
           atomic_load_explicit(&zone_all.holes, memory_order_relaxed) < most;
}

/* Unmaps a run of clean blocks; the lock is dropped meanwhile, the blocks are taken. */
LOCK_UNCHECKED static void zone_unmap_run(struct zone *zone, uint32_t first, uint32_t n)
{
    bool meta = zone_has_meta(zone, first), gone;

    for (uint32_t i = first; i < first + n; i++)
        zone_mark_used(zone, zone_block(i), BLOCK_SPAN);
    zone_begin_purge(zone);
    lock_drop(&zone->lock, LOCK_ARENA);
    gone = window_give(first, n);
    meta = gone && meta && window_give_meta(first, n);
    lock_take(&zone->lock, LOCK_ARENA);
    zone_end_purge(zone);
    if (gone)
        zone_set_gone(zone, first, n, true);
    if (meta)
        zone_set_meta(zone, first, n, false);
    for (uint32_t i = first; i < first + n; i++) {
        if (meta)
            zone_block(i)->meta_high = 0;
        zone_mark_free(zone, zone_block(i));
    }
}

static void zone_unmap_down_to(struct zone *zone, uint32_t keep)
{
    uint32_t end = zone->end, first, n;

    while (!zone_is_awaited(zone) && zone->clean > keep &&
           (n = zone_clean_run(zone, end, zone->clean - keep, &first)) > 0) {
        if (zone_may_hole(zone, first, n))
            zone_unmap_run(zone, first, n);
        end = first;
    }
    zone->clean_left = zone->clean;
}

/* Zones of the library's own objects keep theirs: that is little, and growth there is rare. */
static bool zone_may_unmap(const struct zone *zone)
{
    return zone->map && zone - zone_all.zone < pagemap.zones / 2;
}

void zone_unmap(struct zone *zone)
{
    if (zone_may_unmap(zone))
        zone_unmap_down_to(zone, 0);
}

void zone_settle_space(struct zone *zone)
{
    uint32_t keep = zone_share(zone);

    if (zone->clean_left > zone->clean)
        zone->clean_left = zone->clean;
    /* What could not go the last time is not searched again for every block. */
    if (zone->clean > 2 * keep && zone->clean > zone->clean_left + keep && zone_may_unmap(zone))
        zone_unmap_down_to(zone, keep);
}

bool zone_unmap_taken(struct zone *zone, uint32_t index)
{
    if (!zone_may_unmap(zone) || !window_give(index, 1))
        return false;
    zone_set_gone(zone, index, 1, true);
    return true;
}

/* A free block that is mapped, dirty or clean, goes under the lock; false: the kernel refuses. */
__attribute__((cold)) static bool zone_unmap_free(struct zone *zone, uint32_t index)
{
    struct block *block = zone_block(index);

    if (!window_give(index, 1))
        return false;
    zone_mark_used(zone, block, BLOCK_SPAN);
    zone->warm_pages -= block->ndirty;
    zone->purged += (size_t)block->ndirty * PAGE_SIZE;
    block->ndirty = 0;
    memset(block->dirty, 0, sizeof(block->dirty));
    zone_set_gone(zone, index, 1, true);
    zone_mark_free(zone, block);
    return true;
}

/* Of 64 blocks. */
__attribute__((cold)) static uint32_t zone_unmap_word(struct zone *zone, uint32_t word,
                                                      uint64_t free, bool dirty, uint32_t most)
{
    uint32_t n = 0;

    for (free &= (zone->map[word].free[0] | zone->map[word].free[1]) & ~zone->map[word].gone;
         free && n < most; free &= free - 1) {
        uint32_t i = word * 64 + (uint32_t)__builtin_ctzll(free);
        if ((zone_block(i)->ndirty > 0) == dirty && zone_may_hole(zone, i, 1))
            n += zone_unmap_free(zone, i);
    }
    return n;
}

__attribute__((cold)) uint32_t zone_unmap_spare(struct zone *zone, uint32_t most)
{
    uint32_t n = 0;

    for (unsigned dirty = 0; dirty < 2 && zone_may_unmap(zone); dirty++)
        for (uint32_t word = (zone->end + 63) / 64; word-- > zone->first / 64 && n < most;)
            n += zone_unmap_word(zone, word, UINT64_MAX, dirty, most - n);
    return n;
}

__attribute__((cold)) bool zone_unmap_plain(struct zone *zone, uint32_t but)
{
    for (unsigned dirty = 0; dirty < 2 && zone_may_unmap(zone); dirty++)
        for (uint32_t word = (zone->end + 63) / 64; word-- > zone->first / 64;) {
            uint64_t own = but / 64 == word ? (uint64_t)1 << but % 64 : 0;
            if (zone_unmap_word(zone, word, ~(zone->map[word].meta | own), dirty, 1) > 0)
                return true;
        }
    return false;
}

/* ---- taking again --------------------------------------------------------------------------- */

/* A mapping anew has no advice, is in core dumps as a whole, and is bound to no node. */
static void zone_renew(struct zone *zone, uint32_t first, uint32_t n)
{
    zone_set_gone(zone, first, n, false);
    zone->clean += n;
    if (zone_all.bind)
        __atomic_store_n(&zone->unbound, true, __ATOMIC_RELAXED);
    for (uint32_t i = first, end = first + n, run; i < end; i += run) {
        const struct block *block = zone_block(i);
        bool huge = block->huge, plain = block->plain || zone_all.huge == ZONE_HUGE_NEVER;
        for (run = 0; i + run < end; run++) {
            struct block *next = zone_block(i + run);
            zone_forget_far(zone, i + run);
            if (next->huge != huge || next->plain != block->plain)
                break;
            next->shown = BLOCK_PAGES;
        }
        if (huge || plain) /* as before: so it is one mapping with what lies beside it */
            os_huge(zone_address(i), (size_t)run << BLOCK_SHIFT, huge);
    }
}

void zone_lose(struct zone *zone, uint32_t i)
{
    struct block *block = zone_block(i);

    zone_mark_used(zone, block, BLOCK_UNUSED);
    zone->warm_pages -= block->ndirty;
    if (zone_is_gone(zone, i))
        zone_set_gone(zone, i, 1, false);
    else
        (void)window_give(i, 1);
    if (block->huge != block->home)
        atomic_fetch_sub_explicit(&zone_all.splits, 1, memory_order_relaxed);
    zone->opened--;
    pagemap.zone[i] = UINT8_MAX;
}

/* Loses those of a run that cannot be mapped; false: there were none. */
static bool zone_lose_some(struct zone *zone, uint32_t first, uint32_t n)
{
    bool some = false;

    for (uint32_t i = first; i < first + n; i++) {
        int error = window_retake(i, 1);
        if (error == EEXIST) {
            zone_lose(zone, i);
            some = true;
        } else if (error) {
            break;
        } else if (!window_give(i, 1)) { /* mapped, then: as well as can be */
            zone_renew(zone, i, 1);
        }
    }
    return some;
}

/* The next run of gone blocks in [from, end); its length, or 0. */
static uint32_t zone_gone_run(const struct zone *zone, uint32_t *from, uint32_t end)
{
    uint32_t n = 0;

    while (*from < end && !zone_is_gone(zone, *from))
        ++*from;
    while (*from + n < end && zone_is_gone(zone, *from + n))
        n++;
    return n;
}

/* Unmaps the runs below `end` again that were mapped just now. */
static void zone_undo(struct zone *zone, uint32_t first, uint32_t end)
{
    for (uint32_t i = first, n; (n = zone_gone_run(zone, &i, end)) > 0; i += n)
        if (!window_give(i, n))
            zone_renew(zone, i, n);
}

int zone_remap(struct zone *zone, uint32_t first, uint32_t n)
{
    uint32_t end = first + n, run;

    for (uint32_t i = first; (run = zone_gone_run(zone, &i, end)) > 0; i += run) {
        int error = window_retake(i, run);
        if (!error)
            continue;
        if (error == EEXIST && !zone_lose_some(zone, i, run))
            error = ENOMEM;
        zone_undo(zone, first, i);
        return error;
    }
    for (uint32_t i = first; (run = zone_gone_run(zone, &i, end)) > 0; i += run)
        zone_renew(zone, i, run);
    return 0;
}

int zone_remap_step(struct zone *zone, uint32_t first)
{
    uint32_t end = first + zone_share(zone) / ZONE_STEP, n;
    int error;

    n = zone_gone_run(zone, &first, end < zone->end ? end : zone->end);
    error = zone_remap(zone, first, n);
    return error && error != EEXIST && n > 1 ? zone_remap(zone, first, 1) : error;
}
