/* SPDX-License-Identifier: MIT */
/*
 * arena_node.c - a node's two zones when its memory comes or goes.
 */
#include "os/topology.h"
#include "page/arena.h"
#include "page/arena_kept.h"
#include "page/zone.h"

void arena_node_set(unsigned node, bool there)
{
    if (!there)
        (void)arena_kept_drop();
    for (unsigned i = node; i < pagemap.zones; i += pagemap.zones / 2) {
        struct zone *zone = &zone_all.zone[i];
        lock_take(&zone->lock, LOCK_ARENA);
        zone_set_reserve(zone, there ? zone_reserve(i) : 0);
        if (!there) {
            (void)zone_purge(zone, 0);
            zone_unmap(zone);
        }
        lock_drop(&zone->lock, LOCK_ARENA);
        if (there && !topology.simulated)
            arena_bind(i);
    }
}
