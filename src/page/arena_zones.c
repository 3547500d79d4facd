/* SPDX-License-Identifier: MIT */
/*
 * arena_zones.c - the arena as a whole: its start, its part of a fork, nodes whose memory comes and goes, counts, and
 * giving back all that is warm.
 */
#include "page/arena.h"

#include "base/lock.h"
#include "base/raw.h"
#include "base/report.h"
#include "base/settings.h"
#include "os/os.h"
#include "page/arena_kept.h"
#include "page/window.h"
#include "page/zone.h"

#include <string.h>

enum {
    ARENA_FORK_NAP = 1000000, /* nanoseconds that fork sleeps at a time for pages on their way … */
    ARENA_FORK_NAPS = 500, /* … and how often, for all zones; once for each thread that has died */
    ARENA_LEAST_MIB = 8,   /* the first step of each side */
};

/* ---- the start ------------------------------------------------------------------------------ */

static void arena_init_zone(unsigned i)
{
    struct zone *zone = &zone_all.zone[i];

    for (int b = 0; b < ZONE_BUCKETS; b++) {
        for (int kind = 0; kind < ZONE_KINDS; kind++)
            list_init(&zone->runs[kind][b]);
        list_init(&zone->soiled[b]);
        list_init(&zone->soiled[ZONE_BUCKETS + b]);
    }
    for (int kind = 0; kind < ZONE_KINDS; kind++)
        list_init(&zone->warm[kind]);
    zone_set_reserve(zone, zone_reserve(i));
}

void arena_init(void)
{
    unsigned nodes = 1;

    while (nodes < topology.nodes)
        nodes *= 2;
    if (!window_init(setting_number(SETTING_ARENA)))
        report_fatal("no address space: %u MiB are needed at least; raise the limit (ulimit -v) or "
                     "the cgroup's",
                     ARENA_LEAST_MIB);
    zone_all.huge = (enum zone_huge)setting_number(SETTING_HUGE_PAGES);
    zone_all.reserve_pages = setting_number(SETTING_RESERVE) / PAGE_SIZE;
    zone_all.learns = setting_text(SETTING_RESERVE) == NULL;
    /* A policy of the process's own (numactl) stands above ours. */
    zone_all.bind = topology.memories > 1 && !topology.simulated && os_policy_is_default();
    pagemap.zones = 2 * nodes;
    for (unsigned i = 0; i < pagemap.zones; i++)
        arena_init_zone(i);
}

/*
 * Takes a zone's lock.  Pages on their way back would be lost to the child, so the caller sleeps until the threads
 * that give them back are done.  Its naps are counted, since such a thread may never get a CPU.
 */
static void arena_lock_zone(struct zone *zone, unsigned *naps) LOCK_TAKES(zone->lock);
static void arena_lock_zone(struct zone *zone, unsigned *naps)
{
    uint32_t purging;

    lock_take(&zone->lock, LOCK_ARENA);
    while ((purging = atomic_load_explicit(&zone->purging, memory_order_relaxed)) >
               zone->given_up &&
           *naps > 0) {
        --*naps;
        zone->awaited = true;
        lock_drop(&zone->lock, LOCK_ARENA);
        raw_wait(&zone->purging, purging, ARENA_FORK_NAP);
        lock_take(&zone->lock, LOCK_ARENA);
    }
    zone->awaited = false;
    zone->given_up = purging;
}

__attribute__((cold)) LOCK_UNCHECKED void arena_lock_all(void)
{
    unsigned naps = ARENA_FORK_NAPS;

    for (unsigned i = 0; i < pagemap.zones; i++) {
        struct zone *zone = &zone_all.zone[i];
        arena_lock_zone(zone, &naps);
        if (i < pagemap.zones / 2)
            zone_stock_open(zone, topology_has_memory(i));
        lock_mark_fork(&zone->lock);
    }
    window_lock();
}

__attribute__((cold)) LOCK_UNCHECKED void arena_unlock_all(void)
{
    window_unlock();
    for (unsigned i = pagemap.zones; i-- > 0;) {
        struct zone *zone = &zone_all.zone[i];
        zone_stock_close(zone);
        lock_drop(&zone->lock, LOCK_ARENA);
    }
}

__attribute__((cold)) void arena_child(void)
{
    window_child();
    for (unsigned i = 0; i < pagemap.zones; i++) {
        struct zone *zone = &zone_all.zone[i];
        zone_stock_close(zone);
        lock_init(&zone->lock);
        atomic_store_explicit(&zone->purging, 0, memory_order_relaxed);
        zone->awaited = false;
        zone->given_up = 0;
    }
}

/* ---- nodes ---------------------------------------------------------------------------------- */

__attribute__((cold)) void arena_bind_new(unsigned i, bool nospin)
{
    struct zone *zone = &zone_all.zone[i];

    if (!__atomic_load_n(&zone->unbound, __ATOMIC_RELAXED) ||
        !lock_enter(&zone->lock, LOCK_ARENA, nospin))
        return;
    __atomic_store_n(&zone->unbound, false, __ATOMIC_RELAXED);
    zone_bind(zone);
    lock_drop(&zone->lock, LOCK_ARENA);
}

__attribute__((cold)) void arena_node_set(unsigned node, bool there)
{
    if (!there)
        (void)arena_kept_drop();
    for (unsigned i = node; i < pagemap.zones; i += pagemap.zones / 2) {
        struct zone *zone = &zone_all.zone[i];
        lock_take(&zone->lock, LOCK_ARENA);
        zone_set_reserve(zone, there ? zone_reserve(i) : 0);
        if (!there) {
            (void)zone_purge(zone, 0, SIZE_MAX, SIZE_MAX);
            zone_unmap(zone, 0, UINT32_MAX);
        }
        zone_note_unbound(zone);
        lock_drop(&zone->lock, LOCK_ARENA);
        if (there)
            arena_bind_new(i, false);
    }
}

/* ---- counts --------------------------------------------------------------------------------- */

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
            stat->warm += kept - arena_kept_in(KEPT_CLEAN, i) * PAGE_SIZE;
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

__attribute__((cold)) size_t arena_trim(void)
{
    size_t bytes = 0;

    (void)arena_kept_drop();
    arena_free_left(); /* of a fork that has just ended */
    for (unsigned i = 0; i < pagemap.zones; i++) {
        lock_take(&zone_all.zone[i].lock, LOCK_ARENA);
        bytes += zone_purge(&zone_all.zone[i], 0, SIZE_MAX, SIZE_MAX) * PAGE_SIZE;
        zone_unmap(&zone_all.zone[i], 0, UINT32_MAX);
        lock_drop(&zone_all.zone[i].lock, LOCK_ARENA);
    }
    return bytes;
}
