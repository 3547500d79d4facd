/* SPDX-License-Identifier: MIT */
#include "page/zone.h"

#include "base/placed.h"
#include "os/os.h"

#include <errno.h>
#include <string.h>

enum {
    ZONE_SPLITS = 192, /* blocks in pieces, of which each may be two mappings more */
};

struct zones zone_all HEAD_BSS;

/* Moves a block to another of the lists it may be on; most changes leave it where it is. */
static void zone_refile(struct list *buckets, struct list *link, uint8_t *at, unsigned wanted)
{
    if (*at == wanted)
        return;
    if (list_linked(link))
        list_remove(link);
    if (wanted > 0)
        list_add(&buckets[wanted - 1], link);
    *at = (uint8_t)wanted;
}

static unsigned zone_bucket(unsigned pages)
{
    unsigned bucket = zone_log2(pages);

    return 1 + (bucket < ZONE_BUCKETS ? bucket : ZONE_BUCKETS - 1);
}

/* It may lie on a huge page: no page of it went back. */
static bool zone_is_intact(const struct block *block)
{
    return block->huge && block->nfree == block->ndirty;
}

void zone_file(struct zone *zone, struct block *block)
{
    bool runs = block->state == BLOCK_RUNS;

    zone_refile(zone->runs[block->kind], &block->bucket, &block->runs_at,
                runs && block->nfree > 0 ? zone_bucket(block->longest) : 0);
    zone_refile(zone->soiled, &block->soiled, &block->soiled_at,
                runs && block->ndirty > 0
                    ? zone_is_intact(block) * ZONE_BUCKETS + zone_bucket(block->ndirty)
                    : 0);
}

void zone_mark_free(struct zone *zone, struct block *block)
{
    uint32_t i = zone_block_index(block);

    block->state = BLOCK_FREE;
    zone_file(zone, block);
    if (block->ndirty > 0)
        list_add(&zone->warm[block->huge], &block->bucket);
    else if (!zone_is_gone(zone, i))
        zone->clean++;
    zone->map[i / 64].free[block->huge] |= (uint64_t)1 << i % 64;
}

void zone_mark_used(struct zone *zone, struct block *block, enum block_state state)
{
    uint32_t i = zone_block_index(block);

    if (list_linked(&block->bucket)) /* it was warm */
        list_remove(&block->bucket);
    else if (!zone_is_gone(zone, i))
        zone->clean--;
    block->runs_at = 0;
    block->state = (uint8_t)state;
    zone->map[i / 64].free[block->huge] &= ~((uint64_t)1 << i % 64);
}

/* ---- huge pages ----------------------------------------------------------------------------- */

bool zone_may_split(void)
{
    return atomic_load_explicit(&zone_all.splits, memory_order_relaxed) < ZONE_SPLITS;
}

void zone_advise(uint32_t first, uint32_t n, bool huge)
{
    bool changed = false;
    uint32_t splits = 0;

    for (uint32_t i = first; i < first + n; i++) {
        struct block *block = zone_block(i);
        changed |= huge ? !block->huge : !block->plain;
        splits += (uint32_t)(huge != block->home) - (uint32_t)(block->huge != block->home);
        block->huge = huge;
        block->plain = !huge;
    }
    atomic_fetch_add_explicit(&zone_all.splits, splits, memory_order_relaxed);
    if (changed)
        os_huge(zone_address(first), (size_t)n << BLOCK_SHIFT, huge);
}

/* Of a block that is about to be cut into runs. */
static void zone_advise_runs(const struct zone *zone, struct block *block, enum zone_kind kind)
{
    uint32_t index = zone_block_index(block);
    bool always = zone_all.huge == ZONE_HUGE_ALWAYS;
    bool small = (always ? zone->opened : zone->mapped[ZONE_DENSE]) <= ZONE_SMALL_BLOCKS;

    if (block->huge && kind == ZONE_LOOSE && !always) {
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

static struct block *zone_clean_mapped(const struct zone *zone, bool huge)
{
    int64_t at = zone->clean > 0 ? zone_first_free(zone, huge, false) : -1;

    return at >= 0 ? zone_block((uint32_t)at) : NULL;
}

static struct block *zone_clean(struct zone *zone, bool huge)
{
    struct block *block = zone_clean_mapped(zone, huge);
    int64_t at;
    int error;

    if (block)
        return block;
    while (zone->map && (at = zone_first_free(zone, huge, true)) >= 0) {
        error = zone_remap_step(zone, (uint32_t)at);
        if (!error)
            return zone_block((uint32_t)at);
        if (error != EEXIST)
            break;
    }
    return NULL;
}

static struct block *zone_new(struct zone *zone, enum zone_kind kind)
{
    int64_t index = zone_grow(zone, 1, 1, kind);

    return index < 0 ? NULL : zone_block((uint32_t)index);
}

/* Resident ones first; then those of its kind; one of the other kind before the process grows, unless
 * that would split a mapping too many. */
static struct block *zone_find_block(struct zone *zone, enum zone_kind kind)
{
    bool dense = kind == ZONE_DENSE;
    struct block *block = zone_warm(zone, dense);

    if (!block)
        block = zone_warm(zone, !dense);
    if (!block)
        block = zone_clean(zone, dense);
    if (!block && (dense || zone_may_split()))
        block = zone_clean(zone, !dense);
    if (!block)
        block = zone_new(zone, kind);
    if (!block) {
        zone_open_tails(zone);
        block = zone_clean(zone, dense);
    }
    return block ? block : zone_clean(zone, !dense);
}

void zone_count_huge(struct zone *zone, struct block *block)
{
    if (block->huge && block->ndirty < BLOCK_PAGES) {
        /* The first touch makes all of it resident: missed by the reserve as a whole. */
        zone->warm_pages += (size_t)(BLOCK_PAGES - block->ndirty);
        zone_account_missed(zone, (size_t)(BLOCK_PAGES - block->ndirty));
        memcpy(block->dirty, block->free, sizeof(block->dirty));
        block->ndirty = BLOCK_PAGES;
    }
}

/* One past the last page that is taken if these are cut from a free block. */
static unsigned zone_cut_end(const struct block *block, const struct arena_ask *ask)
{
    return (unsigned)block_find(block, ask->pages, ask->align) + ask->pages;
}

/*
 * Where a limit refuses metadata, or access to pages that were never used: a free block that needs nothing of the
 * kernel; or NULL.  The block that was refused stays free, so any other search would find it again.
 */
static struct block *zone_ready(const struct zone *zone, const struct arena_ask *ask, bool meta)
{
    for (uint32_t i = zone->first / 64; zone->map && i * 64 < zone->end; i++) {
        uint64_t word = (zone->map[i].free[0] | zone->map[i].free[1]) & ~zone->map[i].gone &
                        (meta ? zone->map[i].meta : UINT64_MAX);
        for (; word; word &= word - 1) {
            struct block *block = zone_block(i * 64 + (uint32_t)__builtin_ctzll(word));
            if (zone_cut_end(block, ask) <= block->shown)
                return block;
        }
    }
    return NULL;
}

struct block *zone_take_block(struct zone *zone, enum zone_kind kind, const struct arena_ask *ask,
                              bool meta)
{
    struct block *block;
    int error = 0;

    do
        block = zone_find_block(zone, kind);
    while (block && meta && (error = zone_add_meta(zone, block)) == EEXIST);
    if (error || (block && !zone_show(block, zone_cut_end(block, ask))))
        block = zone_ready(zone, ask, meta);
    if (!block)
        return NULL;
    zone_mark_used(zone, block, BLOCK_RUNS);
    block->kind = (uint8_t)kind;
    zone_advise_runs(zone, block, kind);
    zone_count_huge(zone, block);
    zone_file(zone, block);
    return block;
}

struct block *zone_set_aside(struct zone *zone, bool grow)
{
    const struct arena_ask all = {.pages = BLOCK_PAGES, .align = 1};
    struct block *block = zone_warm(zone, false);

    if (!block && zone->clean > 0 && (block = zone_clean_mapped(zone, false)) == NULL)
        block = zone_clean_mapped(zone, true);
    if (!block && grow)
        block = zone_find_block(zone, ZONE_LOOSE);
    if (!block || zone_add_meta(zone, block) != 0 ||
        (block->shown < BLOCK_PAGES &&
         !os_unguard(zone_address(zone_block_index(block)), BLOCK_SIZE)))
        block = zone_ready(zone, &all, true);
    if (block)
        zone_mark_used(zone, block, BLOCK_SPAN);
    return block;
}
