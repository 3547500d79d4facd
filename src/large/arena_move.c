/* SPDX-License-Identifier: MIT */
/*
 * arena_move.c - resident pages of free blocks move to blocks that a program is about to write to.
 *
 * A span needs blocks in a row, and what is warm seldom lies in a row.  The kernel moves the pages of a whole
 * block by one entry of its page table, in the time of two or three page faults; its 512 pages
 * would be as many faults.  Under the zone's lock.
 */
#include "large/arena_span.h"

#include "os/os.h"
#include "page/zone.h"

#include <string.h>

enum {
    MOVE_LEAST = 32, /* resident pages of a block that are worth a system call */
    MOVE_TRIES = 8,
};

/* Nothing was said to the kernel of this block that is not said of others. */
static bool move_is_like_others(const struct block *block)
{
    return !block->huge && !block->home;
}

/* A free block whose pages may go: one that has no metadata with them. */
static struct block *move_source(struct zone *zone)
{
    struct list *warm = &zone->warm[0], *link = warm->next;

    for (int tries = 0; link != warm && tries < MOVE_TRIES; tries++, link = link->next) {
        struct block *block = LIST_ENTRY(link, struct block, bucket);
        if (block->ndirty >= MOVE_LEAST && block->shown == BLOCK_PAGES && block->meta_high == 0 &&
            move_is_like_others(block))
            return block;
    }
    return NULL;
}

unsigned arena_move(struct zone *zone, uint32_t to)
{
    struct block *block = zone_block(to), *source;
    int32_t had = block->far;
    unsigned moved;
    uint32_t from;

    if (atomic_load_explicit(&zone_all.unmovable, memory_order_relaxed) ||
        !move_is_like_others(block) || (source = move_source(zone)) == NULL)
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
