/* SPDX-License-Identifier: MIT */
/*
 * zone_grow.c - a zone takes blocks from the window in steps, and uses them one after the other.
 *
 * A step is a 64th of what the zone has of that kind, at most 1 GiB, or what is asked for.  So a zone of
 * less than 256 MiB has no step beyond its needs, and a larger limit never leaves less to the program.
 *
 * Of a zone's first blocks the pages that were never taken have no access.  So in a small program an overflow beyond
 * what it uses is a fault.
 */
#include "os/os.h"
#include "page/window.h"
#include "page/zone.h"

#include <string.h>

enum {
    ZONE_STEP_SHARE = 64,
    ZONE_STEP_MAX = 512,  /* blocks */
    ZONE_SHOW = 32,       /* so many pages more may be used at a time, at least, */
    ZONE_SHOW_FIRST = 32, /* and so many at once */
};

static unsigned zone_number(const struct zone *zone)
{
    return (unsigned)(zone - zone_all.zone);
}

bool zone_has(const struct zone *zone, uint32_t index)
{
    return index >= zone->first && index < zone->end && zone_owns(zone, index) &&
           zone_block(index)->state != BLOCK_UNUSED;
}

/* Its own and mapped; in the place of what is gone may lie what others have mapped. */
static __attribute__((cold)) bool zone_can_bind(const struct zone *zone, uint32_t index)
{
    return zone_owns(zone, index) && !zone_is_gone(zone, index);
}

__attribute__((cold)) void zone_bind(struct zone *zone)
{
    unsigned node = zone_number(zone) & (pagemap.zones / 2 - 1);

    for (uint32_t i = zone->first, n; i < zone->end && topology_has_memory(node); i += n) {
        bool own = zone_can_bind(zone, i), meta = zone_has_meta(zone, i);
        for (n = 1; i + n < zone->end && zone_can_bind(zone, i + n) == own &&
                    zone_has_meta(zone, i + n) == meta;)
            n++;
        if (own)
            (void)os_bind(pagemap_block(i), (size_t)n << BLOCK_SHIFT, node);
        if (own && meta)
            (void)os_bind(pagemap_meta(i), (size_t)n * BLOCK_META, node);
    }
}

/* A block's pages behind the first ones have no access. */
static void zone_hide(struct block *block)
{
    char *at = pagemap_block(zone_block_index(block)) + (size_t)ZONE_SHOW_FIRST * PAGE_SIZE;
    size_t bytes = (size_t)(BLOCK_PAGES - ZONE_SHOW_FIRST) * PAGE_SIZE;

    (void)os_forbid(at, bytes); /* refused: it stays as it is */
    block->shown = ZONE_SHOW_FIRST;
}

bool zone_show(struct block *block, unsigned pages)
{
    char *at = pagemap_block(zone_block_index(block)) + (size_t)block->shown * PAGE_SIZE;
    unsigned to = pages + pages / 2;
    size_t bytes;

    if (pages <= block->shown)
        return true;
    to = (to + ZONE_SHOW - 1) / ZONE_SHOW * ZONE_SHOW;
    if (to > BLOCK_PAGES)
        to = BLOCK_PAGES;
    bytes = (size_t)(to - block->shown) * PAGE_SIZE;
    if (!os_unguard(at, bytes))
        return false;
    block->shown = (uint16_t)to;
    return true;
}

/* Blocks are the zone's to use from here on. */
static void zone_open(struct zone *zone, unsigned kind, uint32_t from, uint32_t to)
{
    for (uint32_t i = from; i < to; i++) {
        struct block *block = zone_block(i);
        memset(block->free, 0xff, sizeof(block->free));
        block->nfree = block->longest = block->shown = BLOCK_PAGES;
        block->huge = block->home = zone->tail[kind].huge;
        zone_mark_free(zone, block);
    }
    zone->opened += to - from;
}

/* Bits for all blocks of the window, of which those of the zone's blocks are ever touched. */
static bool zone_make_maps(struct zone *zone)
{
    size_t words = ((pagemap.size >> BLOCK_SHIFT) + 63) / 64;

    if (!zone->map)
        zone->map = os_map_own(words * sizeof(struct zone_bits));
    return zone->map != NULL;
}

/* Huge pages for a whole step of dense blocks, which splits no mapping; none for small programs. */
static void zone_advise_step(struct zone *zone, unsigned kind, uint32_t first, uint32_t n)
{
    struct zone_tail *tail = &zone->tail[kind];

    if (zone_all.huge == ZONE_HUGE_NEVER)
        os_huge(pagemap_block(first), (size_t)n << BLOCK_SHIFT, false);
    if (zone_all.huge != ZONE_HUGE_FULL || kind != ZONE_DENSE ||
        zone->mapped[ZONE_DENSE] - n < ZONE_SMALL_BLOCKS)
        return;
    os_huge(pagemap_block(tail->next), (size_t)(tail->end - tail->next) << BLOCK_SHIFT, true);
    tail->huge = true;
}

/* More blocks behind the tail, or a tail elsewhere; then what was left of it is free. */
static bool zone_step(struct zone *zone, unsigned kind, uint32_t n, uint32_t align)
{
    struct zone_tail *tail = &zone->tail[kind];
    uint32_t want = zone->mapped[kind] / ZONE_STEP_SHARE, first, count;
    struct window_ask ask = {.next = tail->next, .end = tail->end, .need = n, .align = align};

    ask.want = want == 0 ? 1 : want > ZONE_STEP_MAX ? ZONE_STEP_MAX : want;
    if (!zone_make_maps(zone) || !window_take(zone_number(zone), &ask, &first, &count))
        return false;
    if (first != tail->end) {
        zone_open(zone, kind, tail->next, tail->end);
        tail->next = first;
    }
    tail->end = first + count;
    zone->mapped[kind] += count;
    if (zone_is_own(zone)) /* core dumps have the program's objects */
        os_dump(pagemap_block(first), (size_t)count << BLOCK_SHIFT, false);
    if (first < zone->first || zone->first == zone->end)
        zone->first = first;
    if (first + count > zone->end)
        zone->end = first + count;
    zone_note_unbound(zone);
    zone_advise_step(zone, kind, first, count);
    return true;
}

__attribute__((cold)) void zone_open_tails(struct zone *zone)
{
    for (unsigned kind = 0; kind < ZONE_TAILS; kind++) {
        struct zone_tail *tail = &zone->tail[kind];
        zone_open(zone, kind, tail->next, tail->end);
        tail->next = tail->end;
    }
}

static uint64_t zone_aligned(uint32_t index, uint32_t align)
{
    uint64_t base = pagemap.base >> BLOCK_SHIFT;

    return (base + index + align - 1) / align * align - base;
}

int64_t zone_grow(struct zone *zone, uint32_t n, uint32_t align, unsigned kind)
{
    struct zone_tail *tail = &zone->tail[kind];
    uint64_t at = zone_aligned(tail->next, align);
    bool raw = kind == ZONE_SPANS;
    bool hide = !raw && zone->opened < ZONE_SMALL_BLOCKS && !zone_is_own(zone);

    if (at + n > tail->end) {
        zone->refused = !zone_step(zone, kind, n, align);
        if (zone->refused)
            return -1;
        at = zone_aligned(tail->next, align);
    }
    zone_open(zone, kind, tail->next, (uint32_t)at + (raw ? 0 : n));
    if (hide)
        zone_hide(zone_block((uint32_t)at));
    zone->opened += raw ? n : 0;
    tail->next = (uint32_t)at + n;
    return (int64_t)at;
}
