/* SPDX-License-Identifier: MIT */
/*
 * zone_take.c - which free block is cut into runs next, and with what: huge pages, metadata, access to its pages.
 */
#include "page/zone.h"

#include "os/os.h"

#include <errno.h>

/* Of a block that is about to be cut into runs. */
static void zone_advise_runs(const struct zone *zone, struct block *block, enum zone_kind kind)
{
    uint32_t index = zone_block_index(block);
    bool always = zone_all.huge == ZONE_HUGE_ALWAYS;
    bool small = (always ? zone->opened : zone->mapped[ZONE_DENSE]) <= ZONE_SMALL_BLOCKS;

    if (block->huge && kind == ZONE_SPARSE && !always) {
        if (block->ndirty < BLOCK_PAGES) /* else all of it is resident already */
            zone_advise(index, 1, false);
    } else if (!block->huge && block->ndirty == 0 && !small &&
               (always || (zone_all.huge == ZONE_HUGE_FULL && kind == ZONE_DENSE &&
                           (block->home || zone_may_split())))) {
        zone_advise(index, 1, true);
    }
}

/* ---- free blocks ---------------------------------------------------------------------------- */

/* The warm block last freed, of those with huge pages or of the others; or NULL. */
static struct block *zone_warm(struct zone *zone, bool huge)
{
    struct list *warm = &zone->warm[huge];

    return list_empty(warm) ? NULL : LIST_ENTRY(warm->next, struct block, bucket);
}

/* The first free block of those that are mapped, or of those that are gone; or -1. */
static int64_t zone_first_free(const struct zone *zone, bool huge, bool gone)
{
    for (uint32_t i = zone->first / 64; i * 64 < zone->end; i++) {
        uint64_t word = zone->map[i].free[huge] & (gone ? zone->map[i].gone : ~zone->map[i].gone);
        if (word)
            return (int64_t)i * 64 + __builtin_ctzll(word);
    }
    return -1;
}

static struct block *zone_clean(struct zone *zone, bool huge)
{
    int64_t at = zone->clean > 0 ? zone_first_free(zone, huge, false) : -1;
    int error = at < 0 ? EEXIST : 0;

    while (error == EEXIST && (at = zone_first_free(zone, huge, true)) >= 0)
        error = zone_remap_step(zone, (uint32_t)at);
    return error ? NULL : zone_block((uint32_t)at);
}

/* Resident ones first; then those of its kind; one of the other kind before the process grows, unless
 * that would split a mapping too many. */
static struct block *zone_find_block(struct zone *zone, enum zone_kind kind)
{
    bool dense = kind == ZONE_DENSE;
    struct block *block = zone_warm(zone, dense);
    int64_t grown;

    if (!block)
        block = zone_warm(zone, !dense);
    if (!block)
        block = zone_clean(zone, dense);
    if (!block && (dense || zone_may_split()))
        block = zone_clean(zone, !dense);
    if (block)
        return block;
    grown = zone_grow(zone, 1, 1, kind);
    if (grown >= 0)
        return zone_block((uint32_t)grown);
    zone_open_tails(zone);
    block = zone_clean(zone, dense);
    return block ? block : zone_clean(zone, !dense);
}

int zone_add_meta(struct zone *zone, struct block *block)
{
    uint32_t index = zone_block_index(block);
    int error = zone_has_meta(zone, index) ? 0 : zone_map_meta(zone, index);

    /* A limit: the place of one block pays for the metadata of six others. */
    if (error && error != EEXIST)
        zone_open_tails(zone);
    while (error && error != EEXIST && zone_unmap_spare(zone, 1, index) > 0)
        error = zone_map_meta(zone, index);
    if (error == EEXIST && block->state == BLOCK_FREE)
        zone_lose(zone, index);
    return error;
}

/* A free block is cut into runs from here on. */
static void zone_begin_runs(struct zone *zone, struct block *block, enum zone_kind kind)
{
    zone_mark_used(zone, block, BLOCK_RUNS);
    block->kind = (uint8_t)kind;
    zone_advise_runs(zone, block, kind);
    zone_count_huge(zone, block);
}

bool zone_take_block(struct zone *zone, enum zone_kind kind, struct zone_cut *cut)
{
    struct block *block;
    int error = 0;

    do
        block = zone_find_block(zone, kind);
    while (block && cut->meta && (error = zone_add_meta(zone, block)) == EEXIST);
    if (!block || error || !zone_find(block, cut) || !zone_show(block, cut->at + cut->ask->pages))
        return false;
    zone_begin_runs(zone, block, kind);
    return true;
}

/* Finds the pages in a block that is free or cut into runs, and needs nothing of the kernel. */
static bool zone_ready(const struct zone *zone, struct zone_cut *cut)
{
    for (uint32_t i = zone->first; i < zone->end; i++) {
        struct block *block = zone_block(i);
        if ((zone_is_free(zone, i) || (zone_has(zone, i) && block->state == BLOCK_RUNS)) &&
            (!cut->meta || zone_has_meta(zone, i)) && block_may_take_meta(block, cut->granules) &&
            zone_find(block, cut) && cut->at + cut->ask->pages <= block->shown)
            return true;
    }
    return false;
}

bool zone_take_ready(struct zone *zone, enum zone_kind kind, struct zone_cut *cut)
{
    if (!zone_ready(zone, cut))
        return false;
    if (cut->block->state == BLOCK_FREE)
        zone_begin_runs(zone, cut->block, kind);
    return true;
}

__attribute__((cold)) struct block *zone_set_aside(struct zone *zone, bool grow)
{
    const struct arena_ask all = {.pages = BLOCK_PAGES, .align = 1};
    struct zone_cut cut = {.ask = &all, .meta = true};

    if (!zone_take_ready(zone, ZONE_SPARSE, &cut) &&
        !(grow && zone_take_block(zone, ZONE_SPARSE, &cut)))
        return NULL;
    cut.block->state = BLOCK_SPAN;
    return cut.block;
}
