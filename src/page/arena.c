/* SPDX-License-Identifier: MIT */
#include "page/arena.h"

#include "base/lock.h"
#include "base/report.h"
#include "os/os.h"
#include "os/topology.h"
#include "page/zone.h"

#include <errno.h>
#include <string.h>
#include <sys/resource.h>

enum {
    ARENA_TRIES = 8, /* blocks looked at in one bucket */
    ARENA_RESERVE_DEFAULT = 32 << 20,
    ARENA_ZONE_MIN = 8 << 20, /* address space of a zone at least */
    ARENA_FORK_NAP = 1000000, /* nanoseconds that fork sleeps at a time for pages on their way … */
    ARENA_FORK_NAPS = 32,     /* … and how often, for all zones */
};
static const size_t arena_size_wanted = (size_t)4 << 40, arena_size_min = (size_t)32 << 20;

struct pagemap pagemap;

/* ---- runs ----------------------------------------------------------------------------------- */

static struct block *arena_find(struct zone *zone, unsigned pages, unsigned align, int *at)
{
    for (unsigned b = zone_log2(pages); b < ZONE_BUCKETS; b++) {
        struct list *link = zone->runs[b].next;
        for (int tries = 0; link != &zone->runs[b] && tries < ARENA_TRIES; tries++) {
            struct block *block = LIST_ENTRY(link, struct block, bucket);
            link = link->next;
            if ((*at = block_find(block, pages, align)) >= 0)
                return block;
            block_measure(block);
            if (zone_log2(block->longest) != b) /* the bound was stale */
                zone_file(zone, block);
        }
    }
    return NULL;
}

/* Takes free pages of a block of runs. */
static void arena_take_at(struct zone *zone, struct block *block, int at, unsigned pages,
                          bool *zeroed)
{
    unsigned dirty = block_take(block, (unsigned)at, pages);

    zone_account_take(zone, pages, dirty);
    zone_file(zone, block);
    if (zeroed)
        *zeroed = dirty == 0;
}

/* Takes pages of one block; the lock is held.  NULL without memory. */
static struct block *arena_take_run(struct zone *zone, unsigned pages, unsigned align, int *at,
                                    bool *zeroed)
{
    struct block *block = arena_find(zone, pages, align, at);

    if (!block) {
        block = zone_take_block(zone);
        if (!block)
            return NULL;
        *at = block_find(block, pages, align);
    }
    arena_take_at(zone, block, *at, pages, zeroed);
    return block;
}

static void arena_put_run(struct zone *zone, struct block *block, unsigned at, unsigned pages)
{
    block_put(block, at, pages, true);
    zone->used_pages -= pages;
    zone->warm_pages += pages;
    if (block->nfree == BLOCK_PAGES)
        zone_mark_free(zone, block);
    else
        zone_file(zone, block);
    zone_settle(zone);
}

static char *arena_page(const struct block *block, int at)
{
    return zone_address(zone_block_index(block)) + (size_t)at * PAGE_SIZE;
}

static unsigned arena_page_index(const void *address)
{
    return (unsigned)((uintptr_t)address % BLOCK_SIZE / PAGE_SIZE);
}

void *arena_alloc_run(unsigned z, size_t pages, size_t align_pages, bool nospin, bool *zeroed)
{
    struct zone *zone = &zone_all.zone[z];
    struct block *block = NULL;
    int at = 0;

    if (lock_enter(&zone->lock, LOCK_ARENA, nospin)) {
        block = arena_take_run(zone, (unsigned)pages, (unsigned)align_pages, &at, zeroed);
        lock_drop(&zone->lock, LOCK_ARENA);
    }
    if (!block) {
        errno = ENOMEM;
        return NULL;
    }
    return arena_page(block, at);
}

void arena_free_run(void *run, size_t pages)
{
    struct zone *zone = zone_of(run);

    lock_take(&zone->lock, LOCK_ARENA);
    arena_put_run(zone, zone_block(zone_index(run)), arena_page_index(run), (unsigned)pages);
    lock_drop(&zone->lock, LOCK_ARENA);
}

static uint32_t arena_granules(size_t bytes)
{
    return (uint32_t)((bytes + ARENA_GRANULE - 1) / ARENA_GRANULE);
}

void *arena_alloc_slab(unsigned z, unsigned order, size_t meta_bytes, bool nospin, void **meta)
{
    struct zone *zone = &zone_all.zone[z];
    struct block *block;
    uint32_t granule = 0;
    int at = 0;

    if (!lock_enter(&zone->lock, LOCK_ARENA, nospin))
        return NULL;
    block = arena_take_run(zone, 1u << order, 1u << order, &at, NULL);
    if (block && (granule = block_take_meta(block, arena_granules(meta_bytes))) == 0) {
        /* Its metadata is full or in pieces: a fresh block has room. */
        arena_put_run(zone, block, (unsigned)at, 1u << order);
        block = zone_take_block(zone);
        if (block) {
            at = block_find(block, 1u << order, 1u << order);
            arena_take_at(zone, block, at, 1u << order, NULL);
            granule = block_take_meta(block, arena_granules(meta_bytes));
        }
    }
    lock_drop(&zone->lock, LOCK_ARENA);
    if (!granule)
        return NULL;
    *meta = (char *)block + (size_t)granule * ARENA_GRANULE;
    return arena_page(block, at);
}

void arena_free_slab(void *slab, unsigned order, void *meta, size_t meta_bytes)
{
    struct zone *zone = zone_of(slab);
    struct block *block = zone_block(zone_index(slab));

    lock_take(&zone->lock, LOCK_ARENA);
    block_put_meta(block, arena_granule(slab, meta), arena_granules(meta_bytes));
    arena_put_run(zone, block, arena_page_index(slab), 1u << order);
    lock_drop(&zone->lock, LOCK_ARENA);
}

bool arena_extend_run(void *run, size_t pages, size_t more)
{
    struct zone *zone = zone_of(run);
    struct block *block = zone_block(zone_index(run));
    unsigned at = arena_page_index(run) + (unsigned)pages;
    bool free;

    lock_take(&zone->lock, LOCK_ARENA);
    free = block_is_free(block, at, (unsigned)more);
    if (free) {
        zone_account_take(zone, more, block_take(block, at, (unsigned)more));
        zone_file(zone, block);
    }
    lock_drop(&zone->lock, LOCK_ARENA);
    return free;
}

size_t arena_trim(void)
{
    size_t bytes = 0;

    for (unsigned i = 0; i < pagemap.zones; i++) {
        lock_take(&zone_all.zone[i].lock, LOCK_ARENA);
        bytes += zone_purge(&zone_all.zone[i], 0);
        lock_drop(&zone_all.zone[i].lock, LOCK_ARENA);
    }
    return bytes;
}

/* ---- metadata ------------------------------------------------------------------------------- */

void *arena_alloc_meta(const void *address, size_t bytes, bool nospin)
{
    struct zone *zone = zone_of(address);
    struct block *block = zone_block(zone_index(address));
    uint32_t at;

    if (!lock_enter(&zone->lock, LOCK_ARENA, nospin))
        return NULL;
    at = block_take_meta(block, arena_granules(bytes));
    lock_drop(&zone->lock, LOCK_ARENA);
    return at ? (char *)block + (size_t)at * ARENA_GRANULE : NULL;
}

void arena_free_meta(const void *address, void *meta, size_t bytes)
{
    struct zone *zone = zone_of(address);
    struct block *block = zone_block(zone_index(address));

    lock_take(&zone->lock, LOCK_ARENA);
    block_put_meta(block, arena_granule(address, meta), arena_granules(bytes));
    lock_drop(&zone->lock, LOCK_ARENA);
}

uint32_t arena_granule(const void *address, const void *meta)
{
    return (uint32_t)(((const char *)meta - (char *)zone_block(zone_index(address))) /
                      ARENA_GRANULE);
}

/* ---- the whole ------------------------------------------------------------------------------ */

void arena_stat(struct arena_stat *stat)
{
    memset(stat, 0, sizeof(*stat));
    stat->reserved = pagemap.size;
    stat->reserve = zone_all.reserve_pages * PAGE_SIZE;
    for (unsigned i = 0; i < pagemap.zones; i++) {
        struct zone *zone = &zone_all.zone[i];
        lock_take(&zone->lock, LOCK_ARENA);
        stat->used += zone->used_pages * PAGE_SIZE;
        stat->peak += zone->peak_pages * PAGE_SIZE;
        stat->warm += zone->warm_pages * PAGE_SIZE;
        stat->limit += zone->limit_pages * PAGE_SIZE;
        stat->blocks += zone->frontier;
        stat->purged += zone->purged;
        stat->committed += zone->missed;
        for (uint32_t b = 0; b < zone->frontier; b++) {
            const struct block *block = zone_block(zone->first + b);
            size_t high = block->meta_high * (size_t)ARENA_GRANULE;
            high = ((high > PAGE_SIZE ? high : PAGE_SIZE) + PAGE_SIZE - 1) / PAGE_SIZE * PAGE_SIZE;
            stat->meta += BLOCK_PAGES * sizeof(uint32_t) + high;
            /* Released with the block's pages, kept warm with them. */
            if (block->state == BLOCK_FREE && block->ndirty > 0)
                stat->warm += high - PAGE_SIZE;
        }
        lock_drop(&zone->lock, LOCK_ARENA);
    }
}

/*
 * Address space is cheap, but a limit on it is shared with the program: a quarter is its own.
 * Where it is not cheap (emulators keep books on each page of it) STOOK_ARENA says how much to take.
 */
static size_t arena_size_allowed(size_t least)
{
    const char *text = os_getenv("STOOK_ARENA");
    size_t size = arena_size_wanted, asked;
    struct rlimit limit;

    if (text && !os_parse_size(text, &asked))
        report_warn("STOOK_ARENA=%s is no size", text);
    else if (text)
        while (size > least && size > asked)
            size /= 2;

    if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
        while (size > least && size > limit.rlim_cur / 5 * 3)
            size /= 2;
    return size;
}

static size_t arena_free_maps_size(size_t blocks)
{
    return blocks / 8 + ZONE_COUNT_MAX * 8;
}

static bool arena_reserve(size_t size)
{
    size_t blocks = size >> BLOCK_SHIFT, map = arena_free_maps_size(blocks);
    size_t entries = blocks * BLOCK_PAGES * sizeof(uint32_t);
    char *base = os_reserve(size, BLOCK_SIZE), *meta = os_reserve(blocks * BLOCK_META, PAGE_SIZE);
    char *entry = os_reserve(entries, PAGE_SIZE), *free_map = os_map(map);

    if (base && meta && entry && free_map && os_readable(entry, entries)) {
        pagemap.base = (uintptr_t)base;
        pagemap.entry = (uint32_t *)(void *)entry;
        pagemap.meta = meta;
        zone_all.free_maps = free_map;
        return true;
    }
    if (base)
        os_unmap(base, size);
    if (meta)
        os_unmap(meta, blocks * BLOCK_META);
    if (entry)
        os_unmap(entry, entries);
    if (free_map)
        os_unmap(free_map, map);
    return false;
}

/* A zone's pages and its blocks' metadata come from its node. */
void arena_bind(unsigned i)
{
    const struct zone *zone = &zone_all.zone[i];
    unsigned node = i & (pagemap.zones / 2 - 1);

    if (!topology_has_memory(node))
        return;
    (void)os_bind(zone_address(zone->first), (size_t)zone->blocks << BLOCK_SHIFT, node);
    (void)os_bind(zone_block(zone->first), (size_t)zone->blocks * BLOCK_META, node);
}

void arena_init(void)
{
    const char *text = os_getenv("STOOK_RESERVE");
    size_t size, least = arena_size_min, reserve = ARENA_RESERVE_DEFAULT;
    unsigned nodes = 1;
    char thp[64];

    if (text && !os_parse_size(text, &reserve))
        report_warn("STOOK_RESERVE=%s is no size; %zu MiB are kept warm", text, reserve >> 20);
    while (nodes < topology.nodes)
        nodes *= 2;
    while (least < 2 * nodes * ARENA_ZONE_MIN)
        least *= 2;
    for (size = arena_size_allowed(least); !arena_reserve(size); size /= 2)
        if (size <= least)
            report_fatal("no address space: %zu MiB are needed at least, and about a quarter more "
                         "for metadata; raise the limit (ulimit -v) or the cgroup's",
                         least >> 20);
    zone_all.huge =
        os_read_file("/sys/kernel/mm/transparent_hugepage/enabled", thp, sizeof(thp)) > 0 &&
        !strstr(thp, "[never]");
    zone_all.reserve_pages = reserve / PAGE_SIZE;
    pagemap.zones = 2 * nodes;
    pagemap.zone_shift = (unsigned)__builtin_ctzll(size / pagemap.zones);
    for (unsigned i = 0; i < pagemap.zones; i++) {
        struct zone *zone = &zone_all.zone[i];
        for (int b = 0; b < ZONE_BUCKETS; b++) {
            list_init(&zone->runs[b]);
            list_init(&zone->soiled[b]);
        }
        list_init(&zone->warm);
        zone->blocks = (uint32_t)(size / pagemap.zones >> BLOCK_SHIFT);
        zone->first = i * zone->blocks;
        zone->free_map =
            (uint64_t *)(void *)(zone_all.free_maps + i * ((zone->blocks + 63) / 64 * 8));
        zone->reserve_pages = zone_reserve(i);
        zone->limit_pages = zone->reserve_pages;
        if (topology.memories > 1 && !topology.simulated)
            arena_bind(i);
    }
    pagemap.size = size; /* from here on addresses may be ours */
}

void arena_exit(void)
{
    size_t blocks = pagemap.size >> BLOCK_SHIFT;

    os_unmap((void *)pagemap.base, pagemap.size);
    os_unmap(pagemap.meta, blocks * BLOCK_META);
    os_unmap(pagemap.entry, blocks * BLOCK_PAGES * sizeof(uint32_t));
    os_unmap(zone_all.free_maps, arena_free_maps_size(blocks));
    memset(&zone_all, 0, sizeof(zone_all));
    memset(&pagemap, 0, sizeof(pagemap));
}

/*
 * Takes a zone's lock.  Pages on their way back would be lost to the child, so the threads that give
 * them back are waited for, asleep; but not for ever, since they may never get a CPU.
 */
static void arena_lock_zone(struct zone *zone, unsigned *naps)
{
    uint32_t purging;

    lock_take(&zone->lock, LOCK_ARENA);
    while ((purging = atomic_load_explicit(&zone->purging, memory_order_relaxed)) > 0 &&
           *naps > 0) {
        --*naps;
        zone->awaited = true;
        lock_drop(&zone->lock, LOCK_ARENA);
        os_wait(&zone->purging, purging, ARENA_FORK_NAP);
        lock_take(&zone->lock, LOCK_ARENA);
    }
}

void arena_lock_all(void)
{
    unsigned naps = ARENA_FORK_NAPS;

    for (unsigned i = 0; i < pagemap.zones; i++)
        arena_lock_zone(&zone_all.zone[i], &naps);
}

void arena_unlock_all(void)
{
    for (unsigned i = pagemap.zones; i-- > 0;)
        lock_drop(&zone_all.zone[i].lock, LOCK_ARENA);
}

void arena_child(void)
{
    for (unsigned i = 0; i < pagemap.zones; i++) {
        struct zone *zone = &zone_all.zone[i];
        lock_init(&zone->lock);
        atomic_store_explicit(&zone->purging, 0, memory_order_relaxed);
        zone->awaited = false;
    }
}
