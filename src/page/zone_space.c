/* SPDX-License-Identifier: MIT */
/*
 * zone_space.c - what of a zone's blocks, and of their metadata, is mapped: the address space of free blocks goes
 * back to the OS, and is mapped again at the same place when the blocks are taken.
 *
 * A free block without dirty pages is either mapped or gone (a bit in zone->map).  The pages of a gone block are not
 * mapped, nor is its metadata as a rule.  Its header, its part of the page map and its word with the zone are.  Gone blocks stay in the free map.  Only blocks that are free are ever gone: a thread
 * that takes blocks calls zone_remap() first, under the lock.
 *
 * Blocks go in runs of neighbours, from the top of the zone down, since threads that take blocks
 * search from the bottom up.  A run between mapped blocks makes one mapping two, and so does its
 * metadata; ZONE_HOLES bounds how many such holes the process has.
 *
 * Metadata are mapped for a block when the first slab is cut from it, or when something is first said of a run in
 * it.  Spans have none but their headers: their blocks come from places of their own.  A bit a block (zone->map)
 * says that its metadata are mapped; they stay so until the block is gone, whatever it is used for meanwhile.
 * Each piece is a mapping.  Gaps between pieces are mapped, too, if they are short; the more pieces there
 * are, the longer is what counts as short: a zone of n blocks has at most about sqrt(2 * ZONE_GAP_SHARE * n).
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
    ZONE_META_STEP = 8,  /* blocks: free ones behind the block get theirs in the same call */
    ZONE_GAP_SHARE = 4,  /* of the number of pieces: gaps of so many blocks are filled */
};

/* ---- blocks that are gone, and blocks with metadata -------------------------------------------- */

static int zone_bit(const struct zone *zone, uint32_t index, bool meta)
{
    return index >= zone->first && index < zone->end &&
           (meta ? zone_has_meta : zone_is_gone)(zone, index);
}

/* How many runs of gone blocks (or, `meta`, of blocks with metadata) there are more when [first, first + n) becomes one:
 * -1, 0 or 1; fewer when it is one no more. */
static int zone_runs(const struct zone *zone, uint32_t first, uint32_t n, bool meta)
{
    return 1 - zone_bit(zone, first - 1, meta) - zone_bit(zone, first + n, meta);
}

/* Blocks, all of which are gone (have metadata) or none of which is, are now the other.  Owners of objects read whether
 * there are metadata without the lock. */
static void zone_flip(struct zone *zone, uint32_t first, uint32_t n, bool meta)
{
    int more = zone_runs(zone, first, n, meta);
    uint32_t runs = (uint32_t)(zone_bit(zone, first, meta) ? -more : more);

    for (uint32_t i = first; i < first + n; i++) {
        uint64_t *word = meta ? &zone->map[i / 64].meta : &zone->map[i / 64].gone;
        __atomic_store_n(word, *word ^ (uint64_t)1 << i % 64, __ATOMIC_RELAXED);
    }
    if (meta)
        zone->meta_parts += runs;
    else
        atomic_fetch_add_explicit(&zone_all.holes, runs, memory_order_relaxed);
}

static bool zone_unmap_blocks(uint32_t first, uint32_t n)
{
    return window_unmap(pagemap_block(first), (size_t)n << BLOCK_SHIFT);
}

/* ---- giving back ---------------------------------------------------------------------------- */

/* Free blocks that stay mapped. */
static uint32_t zone_share(const struct zone *zone)
{
    uint32_t share = (uint32_t)(zone->used_pages / BLOCK_PAGES / ZONE_KEEP_SHARE);

    return share < ZONE_KEEP_MIN ? ZONE_KEEP_MIN : share;
}

/*
 * The highest run of clean blocks (free, mapped, and without a dirty page) below `end`, at most `most` of them, all with
 * metadata or all without; how many, from *first on.
 */
static uint32_t zone_clean_run(const struct zone *zone, uint32_t end, uint32_t most,
                               uint32_t *first)
{
    uint32_t n = 0;

    for (; end > zone->first && n < most; end--) {
        uint32_t i = end - 1;
        if (zone_is_free(zone, i) && zone_block(i)->ndirty == 0 &&
            (n == 0 || zone_has_meta(zone, i) == zone_has_meta(zone, end)))
            n++;
        else if (n > 0)
            break;
        else if (i % 64 == 63 && zone_free_word(zone, i / 64) == 0)
            end = i - 62; /* the word's first */
    }
    *first = end;
    return n;
}

static bool zone_may_hole(const struct zone *zone, uint32_t first, uint32_t n)
{
    return zone_runs(zone, first, n, false) <= 0 ||
           atomic_load_explicit(&zone_all.holes, memory_order_relaxed) < ZONE_HOLES;
}

/* Unmaps a run of clean blocks; the lock is dropped meanwhile, the blocks are taken. */
LOCK_UNCHECKED static void zone_unmap_run(struct zone *zone, uint32_t first, uint32_t n)
{
    bool meta = zone_has_meta(zone, first), gone;

    for (uint32_t i = first; i < first + n; i++)
        zone_mark_used(zone, zone_block(i), BLOCK_SPAN);
    zone_begin_purge(zone);
    lock_drop(&zone->lock, LOCK_ARENA);
    gone = zone_unmap_blocks(first, n);
    meta = gone && meta && window_unmap(pagemap_meta(first), (size_t)n * BLOCK_META);
    lock_take(&zone->lock, LOCK_ARENA);
    zone_end_purge(zone);
    if (gone)
        zone_flip(zone, first, n, false);
    if (meta)
        zone_flip(zone, first, n, true);
    for (uint32_t i = first; i < first + n; i++) {
        if (meta)
            zone_block(i)->meta_high = 0;
        zone_mark_free(zone, zone_block(i));
    }
}

/* Zones of the library's own objects keep theirs: that is little, and growth there is rare. */
__attribute__((cold)) void zone_unmap(struct zone *zone, uint32_t keep, uint32_t runs)
{
    uint32_t end = zone->end, first, n;

    for (; !zone_is_own(zone) && !zone_is_awaited(zone) && zone->clean > keep &&
           (n = zone_clean_run(zone, end, zone->clean - keep, &first)) > 0;
         end = first) {
        if (!zone_may_hole(zone, first, n))
            continue;
        if (runs-- == 0)
            return;
        zone_unmap_run(zone, first, n);
    }
    zone->clean_left = zone->clean;
}

void zone_trim(struct zone *zone, size_t pages)
{
    uint32_t keep = zone_share(zone);

    zone_purge_more(zone, pages);
    if (zone->clean_left > zone->clean)
        zone->clean_left = zone->clean;
    /* What could not go the last time is not searched again for every block. */
    if (zone->clean > 2 * keep && zone->clean > zone->clean_left + keep)
        zone_unmap(zone, keep, 1);
}

__attribute__((cold)) bool zone_unmap_taken(struct zone *zone, uint32_t index)
{
    if (zone_is_own(zone) || !zone_unmap_blocks(index, 1))
        return false;
    zone_flip(zone, index, 1, false);
    return true;
}

/* A free block that is mapped, dirty or clean, goes under the lock; false: the kernel refuses. */
__attribute__((cold)) static bool zone_unmap_free(struct zone *zone, uint32_t index)
{
    struct block *block = zone_block(index);

    if (!zone_may_hole(zone, index, 1) || !zone_unmap_blocks(index, 1))
        return false;
    zone_mark_used(zone, block, BLOCK_SPAN);
    zone->warm_pages -= block->ndirty;
    zone->purged += (size_t)block->ndirty * PAGE_SIZE;
    block->ndirty = 0;
    memset(block->dirty, 0, sizeof(block->dirty));
    zone_flip(zone, index, 1, false);
    zone_mark_free(zone, block);
    return true;
}

__attribute__((cold)) uint32_t zone_unmap_spare(struct zone *zone, uint32_t most, int64_t without)
{
    uint32_t n = 0;

    for (unsigned dirty = 0; dirty < 2 && !zone_is_own(zone); dirty++)
        for (uint32_t i = zone->end; i-- > zone->first && n < most;)
            if (zone_is_free(zone, i) && (zone_block(i)->ndirty > 0) == dirty &&
                (without == ZONE_NO_BLOCK || (i != without && !zone_has_meta(zone, i))))
                n += zone_unmap_free(zone, i);
    return n;
}

/* ---- taking again --------------------------------------------------------------------------- */

/* A mapping anew has no advice, may be used as a whole, and is bound to no node. */
static __attribute__((cold)) void zone_renew(struct zone *zone, uint32_t first, uint32_t n)
{
    zone_flip(zone, first, n, false);
    zone->clean += n;
    zone_note_unbound(zone);
    for (uint32_t i = first, end = first + n, run; i < end; i += run) {
        bool huge = zone_block(i)->huge;
        for (run = 0; i + run < end && zone_block(i + run)->huge == huge; run++) {
            (void)zone_set_like(zone_block(i + run), huge, false);
            zone_block(i + run)->shown = BLOCK_PAGES;
        }
        if (huge ||
            zone_all.huge == ZONE_HUGE_NEVER) /* as before: one mapping with what lies beside it */
            os_huge(pagemap_block(i), (size_t)run << BLOCK_SHIFT, huge);
    }
}

__attribute__((cold)) void zone_lose(struct zone *zone, uint32_t i)
{
    struct block *block = zone_block(i);

    zone_mark_used(zone, block, BLOCK_UNUSED);
    zone->warm_pages -= block->ndirty;
    if (zone_is_gone(zone, i))
        zone_flip(zone, i, 1, false);
    else
        (void)zone_unmap_blocks(i, 1);
    (void)zone_set_like(block, block->home, block->moved);
    zone->opened--;
    pagemap.zone[i] = UINT8_MAX;
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
        if (!zone_unmap_blocks(i, n))
            zone_renew(zone, i, n);
}

__attribute__((cold)) int zone_remap(struct zone *zone, uint32_t first, uint32_t n)
{
    uint32_t end = first + n, run;

    for (uint32_t i = first; (run = zone_gone_run(zone, &i, end)) > 0; i += run) {
        int error = window_map(pagemap_block(i), (size_t)run << BLOCK_SHIFT);
        if (!error)
            continue;
        for (uint32_t k = i; error == EEXIST && k < i + run; k++)
            zone_lose(zone, k);
        zone_undo(zone, first, i);
        return error;
    }
    for (uint32_t i = first; (run = zone_gone_run(zone, &i, end)) > 0; i += run)
        zone_renew(zone, i, run);
    return 0;
}

__attribute__((cold)) int zone_remap_step(struct zone *zone, uint32_t first)
{
    uint32_t end = first + zone_share(zone) / ZONE_STEP, n;
    int error;

    n = zone_gone_run(zone, &first, end < zone->end ? end : zone->end);
    error = zone_remap(zone, first, n);
    return error && error != EEXIST && n > 1 ? zone_remap(zone, first, 1) : error;
}

/* ---- metadata ------------------------------------------------------------------------------- */

/* The blocks without metadata from `at` on, downwards or up, if there are some behind these and few of these. */
static uint32_t zone_gap(const struct zone *zone, uint32_t at, int step)
{
    for (uint32_t n = 0; n <= zone->meta_parts / ZONE_GAP_SHARE; n++, at += (uint32_t)step) {
        if (at < zone->first || at >= zone->end || !zone_owns(zone, at))
            return 0;
        if (zone_has_meta(zone, at))
            return n;
    }
    return 0;
}

/* The rest of the tail that a block came from, which is cut into slabs next, or some free blocks behind the block. */
static uint32_t zone_meta_end(const struct zone *zone, uint32_t index)
{
    const struct zone_tail *tail = &zone->tail[ZONE_DENSE];
    uint32_t end = index + 1;

    while (end < zone->end && !zone_has_meta(zone, end) &&
           ((end >= tail->next && end < tail->end) ||
            (end < index + ZONE_META_STEP && zone_is_free(zone, end))))
        end++;
    return end;
}

static int zone_map_meta_of(struct zone *zone, uint32_t first, uint32_t end)
{
    size_t size = (size_t)(end - first) * BLOCK_META;
    int error = window_map(pagemap_meta(first), size);

    if (error)
        return error;
    os_dump(pagemap_meta(first), size, false); /* it is not the program's */
    zone_flip(zone, first, end - first, true);
    zone_note_unbound(zone);
    return 0;
}

int zone_map_meta(struct zone *zone, uint32_t index)
{
    uint32_t first = index - zone_gap(zone, index - 1, -1), end = zone_meta_end(zone, index);
    int error = zone_map_meta_of(zone, first, end += zone_gap(zone, end, 1));

    return error && end - first > 1 ? zone_map_meta_of(zone, index, index + 1) : error;
}
