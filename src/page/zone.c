/* SPDX-License-Identifier: MIT */
/*
 * zone.c - the lists that a zone's blocks are on, and where huge pages are asked for.
 */
#include "page/zone.h"

#include "base/placed.h"
#include "os/os.h"

enum {
    ZONE_SPLITS = 512, /* blocks that are unlike those around them: each may be two mappings more */
};

/* The first two zones are on one page. */
struct zones zone_all __attribute__((aligned(2048))) HEAD_BSS;

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

    if (runs && block->nfree == BLOCK_PAGES) {
        zone_mark_free(zone, block);
        return;
    }
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
    /* First, since a read before it would be a page fault more. */
    zone->map[i / 64].free[block->huge] |= (uint64_t)1 << i % 64;
    zone_file(zone, block);
    if (block->ndirty == BLOCK_PAGES)
        list_add(&zone->warm[block->huge], &block->bucket);
    else if (block->ndirty > 0) /* the last that is taken, and the first of which more goes back */
        list_add_tail(&zone->warm[block->huge], &block->bucket);
    else if (!zone_is_gone(zone, i))
        zone->clean++;
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

__attribute__((cold)) bool zone_set_like(struct block *block, bool huge, bool moved)
{
    int before = block->huge != block->home || block->moved, now = huge != block->home || moved;
    bool changed = block->huge != huge;

    block->huge = huge;
    block->moved = moved;
    if (now != before)
        atomic_fetch_add_explicit(&zone_all.splits, (uint32_t)(now - before), memory_order_relaxed);
    return changed;
}

__attribute__((cold)) void zone_advise(uint32_t first, uint32_t n, bool huge)
{
    bool changed = false;

    for (uint32_t i = first; i < first + n; i++)
        changed |= zone_set_like(zone_block(i), huge, zone_block(i)->moved);
    if (changed)
        os_huge(pagemap_block(first), (size_t)n << BLOCK_SHIFT, huge);
}
