/* SPDX-License-Identifier: MIT */
/*
 * zone_meta.c - metadata are mapped for a block when the first slab is cut from it, or when something is
 * first said of a run in it.
 *
 * Spans have none but their headers: their blocks come from places of their own.  A bit a block (zone->map) says that its metadata are mapped; they stay so
 * until the block is gone, whatever it is used for meanwhile.
 *
 * Each piece is a mapping.  Gaps between pieces are mapped, too, if they are short; the more pieces there
 * are, the longer is what counts as short: a zone of n blocks has at most about sqrt(2 * ZONE_GAP_SHARE * n).
 */
#include "page/window.h"
#include "page/zone.h"

#include <errno.h>

enum {
    ZONE_META_STEP = 8, /* blocks: free ones beside the block get theirs in the same call */
    ZONE_GAP_SHARE = 4, /* of the number of pieces: gaps of so many blocks are filled */
};

static bool zone_meta_beside(const struct zone *zone, uint32_t index)
{
    return index >= zone->first && index < zone->end && zone_has_meta(zone, index);
}

void zone_set_meta(struct zone *zone, uint32_t first, uint32_t n, bool mapped)
{
    uint32_t more = 1;

    more -= zone_meta_beside(zone, first - 1);
    more -= zone_meta_beside(zone, first + n);
    for (uint32_t i = first; i < first + n; i++)
        __atomic_store_n(&zone->map[i / 64].meta, zone->map[i / 64].meta ^ (uint64_t)1 << i % 64,
                         __ATOMIC_RELAXED);
    zone->meta_parts += mapped ? more : -more;
}

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

/* Never used, and cut into slabs when it is. */
static bool zone_in_tail(const struct zone *zone, uint32_t index)
{
    return index >= zone->tail[ZONE_DENSE].next && index < zone->tail[ZONE_DENSE].end;
}

static bool zone_is_free(const struct zone *zone, uint32_t index)
{
    return ((zone->map[index / 64].free[0] | zone->map[index / 64].free[1]) >> index % 64 & 1) &&
           !zone_is_gone(zone, index);
}

/* The rest of the tail that a block came from has its metadata at once, or some free blocks behind it. */
static uint32_t zone_meta_end(const struct zone *zone, uint32_t index)
{
    uint32_t end = index + 1;

    while (end < zone->end && !zone_has_meta(zone, end) &&
           (zone_in_tail(zone, end) || (end < index + ZONE_META_STEP && zone_is_free(zone, end))))
        end++;
    return end;
}

static int zone_map_meta(struct zone *zone, uint32_t first, uint32_t end)
{
    int error = window_take_meta(first, end - first);

    if (error)
        return error;
    zone_set_meta(zone, first, end - first, true);
    if (zone_all.bind)
        __atomic_store_n(&zone->unbound, true, __ATOMIC_RELAXED);
    return 0;
}

int zone_add_meta(struct zone *zone, struct block *block)
{
    uint32_t index = zone_block_index(block), end;
    int error;

    if (zone_has_meta(zone, index))
        return 0;
    end = zone_meta_end(zone, index);
    error =
        zone_map_meta(zone, index - zone_gap(zone, index - 1, -1), end + zone_gap(zone, end, 1));
    if (error)
        error = zone_map_meta(zone, index, index + 1);
    /* A limit: the place of one block pays for the metadata of six others. */
    if (error && error != EEXIST)
        zone_open_tails(zone);
    while (error && error != EEXIST && zone_unmap_plain(zone, index))
        error = zone_map_meta(zone, index, index + 1);
    if (error == EEXIST && block->state == BLOCK_FREE)
        zone_lose(zone, index);
    return error;
}
