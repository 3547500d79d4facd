/* SPDX-License-Identifier: MIT */
#include "page/arena.h"

#include "base/context.h"
#include "base/lock.h"
#include "base/report.h"
#include "base/settings.h"
#include "os/os.h"
#include "os/topology.h"
#include "page/arena_left.h"
#include "page/window.h"
#include "page/zone.h"

#include <errno.h>
#include <string.h>

enum {
    ARENA_TRIES = 8,          /* blocks searched in one bucket … */
    ARENA_LOOKS = 64,         /* … and passed, since their metadata are full */
    ARENA_FORK_NAP = 1000000, /* nanoseconds that fork sleeps at a time for pages on their way … */
    ARENA_FORK_NAPS = 500, /* … and how often, for all zones; once for each thread that has died */
    ARENA_LEAST_MIB = 8,   /* the first step of each side */
};

/* ---- runs ----------------------------------------------------------------------------------- */

static uint32_t arena_granules(size_t bytes)
{
    return (uint32_t)((bytes + ARENA_GRANULE - 1) / ARENA_GRANULE);
}

/* Whether the pages' block needs metadata: runs have none until something is said of one. */
static bool arena_wants_meta(const struct arena_ask *ask)
{
    return ask->meta_bytes > 0 || atomic_load_explicit(&zone_all.noted, memory_order_relaxed);
}

/* Whether the block's metadata, if they are wanted, and all pages before `end` may be used as they are. */
static bool arena_is_ready(const struct zone *zone, const struct block *block,
                           const struct arena_ask *ask, unsigned end)
{
    return end <= block->shown &&
           (!arena_wants_meta(ask) || zone_has_meta(zone, zone_block_index(block)));
}

/* `ready`: in all blocks that need nothing of the kernel, and in no others; else in some. */
static struct block *arena_find(struct zone *zone, enum zone_kind kind, const struct arena_ask *ask,
                                bool ready, int *at)
{
    const unsigned pages = ask->pages;
    const uint32_t granules = arena_granules(ask->meta_bytes);
    struct list *runs = zone->runs[kind];

    for (unsigned b = zone_log2(pages); b < ZONE_BUCKETS; b++) {
        struct list *link = runs[b].next;
        int tries = 0;
        for (int looks = 0;
             link != &runs[b] && (ready || (tries < ARENA_TRIES && looks < ARENA_LOOKS)); looks++) {
            struct block *block = LIST_ENTRY(link, struct block, bucket);
            link = link->next;
            if (!block_may_take_meta(block, granules))
                continue;
            if ((*at = block_find(block, pages, ask->align)) >= 0) {
                if (!ready || arena_is_ready(zone, block, ask, (unsigned)*at + pages))
                    return block;
                continue;
            }
            tries++;
            block_measure(block);
            if (zone_log2(block->longest) != b) /* the bound was stale */
                zone_file(zone, block);
        }
    }
    return NULL;
}

/* Some of a block's pages are free, or all. */
static void arena_file(struct zone *zone, struct block *block)
{
    if (block->nfree == BLOCK_PAGES)
        zone_mark_free(zone, block);
    else
        zone_file(zone, block);
}

/* Takes free pages of a block of runs; false: the kernel refuses them. */
static bool arena_take_at(struct zone *zone, struct block *block, int at, unsigned pages,
                          bool *zeroed)
{
    unsigned dirty;

    if (!zone_show(block, (unsigned)at + pages)) {
        arena_file(zone, block);
        return false;
    }
    dirty = block_take(block, (unsigned)at, pages);
    zone_account_take(zone, pages, dirty);
    zone_file(zone, block);
    if (zeroed)
        *zeroed = dirty == 0;
    return true;
}

static void arena_put_run(struct zone *zone, struct block *block, unsigned at, unsigned pages)
{
    block_put(block, at, pages, true);
    zone_set_used(zone, zone->used_pages - pages);
    zone->warm_pages += pages;
    arena_file(zone, block);
    zone_settle(zone);
}

static char *arena_page(const struct block *block, int at)
{
    return zone_address(zone_block_index(block)) + (size_t)at * PAGE_SIZE;
}

/* A block's metadata are mapped, with room for a descriptor if one is wanted: where; 0: there is none. */
static uint32_t arena_take_granules(struct zone *zone, struct block *block, size_t bytes)
{
    if (zone_add_meta(zone, block) != 0)
        return 0;
    return bytes == 0 ? 1
                      : block_take_meta(block, zone_granules(zone_block_index(block)),
                                        arena_granules(bytes));
}

/* Room for the descriptor in a block's metadata.  0: there is none. */
static uint32_t arena_room(struct zone *zone, struct block *block, const struct arena_ask *ask)
{
    return arena_wants_meta(ask) ? arena_take_granules(zone, block, ask->meta_bytes) : 1;
}

/*
 * Free pages of a block with such room, which is taken; or NULL.  The pages may be used.  The kernel may refuse a block
 * its metadata, or access to pages that were never used; other blocks are then searched, that have both.
 */
static struct block *arena_cut(struct zone *zone, enum zone_kind kind, const struct arena_ask *ask,
                               bool ready, int *at, uint32_t *granule)
{
    for (int tries = 0; ready || tries < ARENA_TRIES; tries++) {
        struct block *block = arena_find(zone, kind, ask, ready, at);
        if (!block)
            return NULL;
        if (zone_show(block, (unsigned)*at + ask->pages)) {
            *granule = arena_room(zone, block, ask);
            if (*granule)
                return block;
            if (!block_may_take_meta(block, arena_granules(ask->meta_bytes)))
                continue; /* they are full, or in pieces, and the block says so from now on */
        }
        ready = true;
    }
    return NULL;
}

/* Memory is short: beside the other kind; then in any block that was passed over before. */
static struct block *arena_cut_anywhere(struct zone *zone, enum zone_kind kind,
                                        const struct arena_ask *ask, int *at, uint32_t *granule)
{
    enum zone_kind other = kind == ZONE_DENSE ? ZONE_LOOSE : ZONE_DENSE;
    struct block *block = arena_cut(zone, other, ask, false, at, granule);

    if (!block)
        block = arena_cut(zone, kind, ask, true, at, granule);
    return block ? block : arena_cut(zone, other, ask, true, at, granule);
}

/* Under the lock.  NULL without memory. */
static struct block *arena_take_noted(struct zone *zone, const struct arena_ask *ask, int *at,
                                      bool *zeroed, uint32_t *granule)
{
    enum zone_kind kind = ask->dense ? ZONE_DENSE : ZONE_LOOSE;
    struct block *block = arena_cut(zone, kind, ask, false, at, granule);

    if (!block) {
        block = zone_take_block(zone, kind, ask, arena_wants_meta(ask));
        if (block) {
            *at = block_find(block, ask->pages, ask->align);
            *granule = arena_room(zone, block, ask);
            if (*granule == 0)
                arena_file(zone, block);
        } else {
            block = arena_cut_anywhere(zone, kind, ask, at, granule);
        }
    }
    if (!block || *granule == 0)
        return NULL;
    if (arena_take_at(zone, block, *at, ask->pages, zeroed))
        return block;
    if (ask->meta_bytes > 0)
        block_put_meta(block, zone_granules(zone_block_index(block)), *granule,
                       arena_granules(ask->meta_bytes));
    return NULL;
}

void *arena_alloc(unsigned z, const struct arena_ask *ask, bool *zeroed, void **meta)
{
    struct zone *zone = &zone_all.zone[z];
    struct block *block = NULL;
    uint32_t granule;
    int at = 0;

    for (unsigned turn = 0;; turn++) {
        enum zone_cut cut;
        if (lock_enter(&zone->lock, LOCK_ARENA, ask->nospin)) {
            block = arena_take_noted(zone, ask, &at, zeroed, &granule);
            lock_drop(&zone->lock, LOCK_ARENA);
            break;
        }
        cut = zone_stock_cut(zone, ask, &block, &at, &granule);
        if (cut == ZONE_CUT_DONE && zeroed)
            *zeroed = false;
        if (cut != ZONE_CUT_AGAIN || ask->nospin)
            break;
        lock_pause(turn);
    }
    if (!block) {
        errno = ENOMEM;
        return NULL;
    }
    if (meta)
        *meta = arena_meta(arena_page(block, at), granule);
    return arena_page(block, at);
}

bool arena_free_now(void *run, size_t pages, void *meta, size_t meta_bytes)
{
    struct zone *zone = zone_of(run);
    struct block *block = zone_block(zone_index(run));

    if (!lock_enter(&zone->lock, LOCK_ARENA, false))
        return false;
    if (meta)
        block_put_meta(block, zone_granules(zone_index(run)), arena_granule(run, meta),
                       arena_granules(meta_bytes));
    arena_put_run(zone, block, zone_page(run), (unsigned)pages);
    lock_drop(&zone->lock, LOCK_ARENA);
    return true;
}

bool arena_extend_run(void *run, size_t pages, size_t more)
{
    struct zone *zone = zone_of(run);
    struct block *block = zone_block(zone_index(run));
    unsigned at = zone_page(run) + (unsigned)pages;
    bool free;

    if (!lock_enter(&zone->lock, LOCK_ARENA, false))
        return false;
    free = block_is_free(block, at, (unsigned)more) &&
           arena_take_at(zone, block, (int)at, (unsigned)more, NULL);
    lock_drop(&zone->lock, LOCK_ARENA);
    return free;
}

/* ---- metadata ------------------------------------------------------------------------------- */

uint32_t arena_granule(const void *address, const void *meta)
{
    return (uint32_t)(((const char *)meta - zone_meta(zone_index(address))) / ARENA_GRANULE);
}

/* ---- the whole ------------------------------------------------------------------------------ */

static void arena_bind_locked(struct zone *zone)
{
    __atomic_store_n(&zone->unbound, false, __ATOMIC_RELAXED);
    if (zone_all.bind)
        zone_bind(zone);
}

void arena_bind(unsigned i)
{
    struct zone *zone = &zone_all.zone[i];

    lock_take(&zone->lock, LOCK_ARENA);
    arena_bind_locked(zone);
    lock_drop(&zone->lock, LOCK_ARENA);
}

void arena_bind_new(unsigned i, bool nospin)
{
    struct zone *zone = &zone_all.zone[i];

    if (!__atomic_load_n(&zone->unbound, __ATOMIC_RELAXED) ||
        !lock_enter(&zone->lock, LOCK_ARENA, nospin))
        return;
    arena_bind_locked(zone);
    lock_drop(&zone->lock, LOCK_ARENA);
}

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
    zone_stock_init(zone);
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
 * Takes a zone's lock.  Pages on their way back would be lost to the child, so the threads that give
 * them back are waited for, asleep; but not for ever, since they may never get a CPU.
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
        os_wait(&zone->purging, purging, ARENA_FORK_NAP);
        lock_take(&zone->lock, LOCK_ARENA);
    }
    zone->awaited = false;
    zone->given_up = purging;
}

LOCK_UNCHECKED void arena_lock_all(void)
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

LOCK_UNCHECKED void arena_unlock_all(void)
{
    window_unlock();
    for (unsigned i = pagemap.zones; i-- > 0;) {
        struct zone *zone = &zone_all.zone[i];
        zone_stock_close(zone);
        lock_drop(&zone->lock, LOCK_ARENA);
    }
}

void arena_child(void)
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
