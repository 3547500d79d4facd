/* SPDX-License-Identifier: MIT */
/*
 * zone_move.c - resident pages of free blocks move to blocks that a program is about to write to.
 *
 * A span needs blocks in a row, and what is warm seldom lies in a row.  The kernel moves the pages of a whole
 * block by one entry of its page table, in the time of two or three page faults; its 512 pages
 * would be as many faults.  Each block remembers where its pages come from, since neighbours whose
 * pages come from neighbours are one mapping: ZONE_SEAMS bounds how many mappings there are more.
 */
#include "os/os.h"
#include "page/zone.h"

#include <string.h>

enum {
    ZONE_SEAMS = 1024,    /* between neighbours that are two mappings, process-wide */
    ZONE_MOVE_LEAST = 32, /* resident pages of a block that are worth a system call */
    ZONE_MOVE_TRIES = 8,
};

/* Neighbours of a block with pages from so far away that make two mappings with it: 0 to 2. */
static unsigned zone_seams(const struct zone *zone, uint32_t index, int32_t far)
{
    unsigned seams = 0;

    if (index > zone->first)
        seams += __atomic_load_n(&zone_block(index - 1)->far, __ATOMIC_RELAXED) != far;
    if (index + 1 < zone->end)
        seams += __atomic_load_n(&zone_block(index + 1)->far, __ATOMIC_RELAXED) != far;
    return seams;
}

/* False: that would be a mapping too many. */
static bool zone_set_far(struct zone *zone, uint32_t index, int32_t far)
{
    struct block *block = zone_block(index);
    uint32_t more = zone_seams(zone, index, far) - zone_seams(zone, index, block->far);

    if ((int32_t)more > 0 &&
        atomic_load_explicit(&zone_all.seams, memory_order_relaxed) + more > ZONE_SEAMS)
        return false;
    atomic_fetch_add_explicit(&zone_all.seams, more, memory_order_relaxed);
    __atomic_store_n(&block->far, far, __ATOMIC_RELAXED);
    return true;
}

void zone_forget_far(struct zone *zone, uint32_t index)
{
    if (zone_block(index)->far != 0)
        (void)zone_set_far(zone, index, 0);
}

/* Nothing was said to the kernel of this block that is not said of others. */
static bool zone_is_like_others(const struct block *block)
{
    return !block->huge && !block->home;
}

/* A free block whose pages may go: one that has no metadata with them. */
static struct block *zone_movable(struct zone *zone)
{
    struct list *warm = &zone->warm[0], *link = warm->next;

    for (int tries = 0; link != warm && tries < ZONE_MOVE_TRIES; tries++, link = link->next) {
        struct block *block = LIST_ENTRY(link, struct block, bucket);
        if (block->ndirty >= ZONE_MOVE_LEAST && block->shown == BLOCK_PAGES &&
            block->meta_high == 0 && zone_is_like_others(block))
            return block;
    }
    return NULL;
}

unsigned zone_move(struct zone *zone, uint32_t to)
{
    struct block *block = zone_block(to), *source;
    int32_t had = block->far;
    unsigned moved;
    uint32_t from;

    if (atomic_load_explicit(&zone_all.unmovable, memory_order_relaxed) ||
        !zone_is_like_others(block) || (source = zone_movable(zone)) == NULL)
        return 0;
    from = zone_block_index(source);
    if (!zone_set_far(zone, to, source->far + (int32_t)(from - to)))
        return 0;
    if (!os_move(pagemap_block(from), pagemap_block(to), BLOCK_SIZE)) {
        atomic_store_explicit(&zone_all.unmovable, true, memory_order_relaxed);
        (void)zone_set_far(zone, to, had);
        return 0;
    }
    moved = source->ndirty;
    zone_mark_used(zone, source, BLOCK_SPAN);
    memset(source->dirty, 0, sizeof(source->dirty));
    source->ndirty = 0;
    zone_mark_free(zone, source);
    return moved;
}
