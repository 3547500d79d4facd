/* SPDX-License-Identifier: MIT */
/*
 * arena_stat.c - how much the arena has, and all of it that is warm goes back.
 */
#include "page/arena.h"

#include "page/arena_kept.h"
#include "page/window.h"
#include "page/zone.h"

#include <string.h>

__attribute__((cold)) void arena_stat(struct arena_stat *stat)
{
    memset(stat, 0, sizeof(*stat));
    stat->reserved = window_mapped();
    stat->reserve = zone_all.reserve_pages * PAGE_SIZE;
    for (unsigned i = 0; i < pagemap.zones; i++) {
        struct zone *zone = &zone_all.zone[i];
        size_t kept = arena_kept(i) * PAGE_SIZE;
        lock_take(&zone->lock, LOCK_ARENA);
        stat->used += zone->used_pages * PAGE_SIZE;
        stat->peak += zone->peak_pages * PAGE_SIZE;
        stat->warm += zone->warm_pages * PAGE_SIZE;
        if (kept <= stat->used) { /* racy */
            stat->used -= kept;
            stat->warm += kept;
        }
        stat->limit += zone->limit_pages * PAGE_SIZE;
        stat->blocks += zone->opened;
        stat->purged += zone->purged;
        stat->committed += zone->missed;
        for (uint32_t b = zone->first; b < zone->end; b++) {
            const struct block *block = zone_block(b);
            size_t high;
            if (!zone_has(zone, b))
                continue;
            high = block->meta_high * (size_t)ARENA_GRANULE;
            high = (high + PAGE_SIZE - 1) / PAGE_SIZE * PAGE_SIZE;
            stat->meta += BLOCK_PAGES * sizeof(uint32_t) + BLOCK_HEADER + high;
            /* Released with the block's pages, kept warm with them. */
            if (block->state == BLOCK_FREE && block->ndirty > 0)
                stat->warm += high;
        }
        lock_drop(&zone->lock, LOCK_ARENA);
    }
}

size_t arena_used(void)
{
    size_t pages = 0;

    for (unsigned i = 0; i < pagemap.zones / 2; i++)
        pages += __atomic_load_n(&zone_all.zone[i].used_pages, __ATOMIC_RELAXED);
    return pages * PAGE_SIZE;
}

size_t arena_trim(void)
{
    size_t bytes = 0;

    (void)arena_kept_drop();
    arena_settle_left(); /* of a fork that has just ended */
    for (unsigned i = 0; i < pagemap.zones; i++) {
        lock_take(&zone_all.zone[i].lock, LOCK_ARENA);
        bytes += zone_purge(&zone_all.zone[i], 0);
        zone_unmap(&zone_all.zone[i]);
        lock_drop(&zone_all.zone[i].lock, LOCK_ARENA);
    }
    return bytes;
}
