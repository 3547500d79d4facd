/* SPDX-License-Identifier: MIT */
#include "page/zone.h"

#include "os/os.h"

#include <string.h>

enum {
    ZONE_CHUNK = 16,       /* blocks committed at a time where the OS allows */
    ZONE_SMALL_BLOCKS = 4, /* first blocks of a zone: no huge pages for small programs */
    ZONE_LIMIT_MIN = 2 << 20,
};

struct zones zone_all;

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

void zone_file(struct zone *zone, struct block *block)
{
    bool runs = block->state == BLOCK_RUNS;

    zone_refile(zone->runs, &block->bucket, &block->runs_at,
                runs && block->nfree > 0 ? zone_bucket(block->longest) : 0);
    zone_refile(zone->soiled, &block->soiled, &block->soiled_at,
                runs && block->ndirty > 0 ? zone_bucket(block->ndirty) : 0);
}

void zone_mark_free(struct zone *zone, struct block *block)
{
    uint32_t i = zone_block_index(block) - zone->first;

    block->state = BLOCK_FREE;
    zone_file(zone, block);
    if (block->ndirty > 0)
        list_add(&zone->warm, &block->bucket);
    zone->free_map[i / 64] |= (uint64_t)1 << i % 64;
}

void zone_mark_used(struct zone *zone, struct block *block, enum block_state state)
{
    uint32_t i = zone_block_index(block) - zone->first;

    if (list_linked(&block->bucket))
        list_remove(&block->bucket);
    block->runs_at = 0;
    block->state = (uint8_t)state;
    zone->free_map[i / 64] &= ~((uint64_t)1 << i % 64);
}

/* Pages came from the OS: what misses the reserve lets it grow again. */
static void zone_account_missed(struct zone *zone, size_t pages)
{
    zone->missed += pages * PAGE_SIZE;
    zone->limit_pages += pages;
    if (zone->limit_pages > zone->reserve_pages)
        zone->limit_pages = zone->reserve_pages;
}

/* Pages left the warm ones, or came from the OS. */
void zone_account_take(struct zone *zone, size_t pages, size_t dirty)
{
    zone->used_pages += pages;
    if (zone->used_pages > zone->peak_pages)
        zone->peak_pages = zone->used_pages;
    zone->warm_pages -= dirty;
    if (dirty < pages)
        zone_account_missed(zone, pages - dirty);
}

/* ---- growing -------------------------------------------------------------------------------- */

static bool zone_commit(struct zone *zone, uint32_t upto)
{
    uint32_t goal = upto + ZONE_CHUNK < zone->blocks ? upto + ZONE_CHUNK : zone->blocks;

    if (upto > zone->blocks)
        return false;
    while (zone->committed < upto) {
        uint32_t at = zone->first + zone->committed, n = goal - zone->committed;
        char *entries = (char *)&pagemap.entry[(size_t)at * BLOCK_PAGES];
        char *from = (char *)((uintptr_t)entries & ~(uintptr_t)(PAGE_SIZE - 1));
        char *end = entries + (size_t)n * BLOCK_PAGES * sizeof(uint32_t);
        end = (char *)(((uintptr_t)end + PAGE_SIZE - 1) & ~(uintptr_t)(PAGE_SIZE - 1));
        if (!os_commit(from, (size_t)(end - from)) ||
            !os_commit(pagemap.meta + (size_t)at * BLOCK_META, (size_t)n * BLOCK_META) ||
            !os_commit(zone_address(at), (size_t)n << BLOCK_SHIFT)) {
            if (goal == upto)
                return false;
            goal = upto; /* just what is asked for */
            continue;
        }
        zone->committed += n;
    }
    return true;
}

/* Takes `n` blocks at the frontier into use, after skipping to the alignment. */
int64_t zone_grow(struct zone *zone, uint32_t n, uint32_t align)
{
    uint64_t base = (pagemap.base >> BLOCK_SHIFT) + zone->first;
    uint64_t aligned = (base + zone->frontier + align - 1) / align * align - base;
    uint32_t start = (uint32_t)aligned;

    if (aligned + n > zone->blocks || !zone_commit(zone, start + n))
        return -1;
    for (uint32_t i = zone->frontier; i < start + n; i++) {
        struct block *block = zone_block(zone->first + i);
        memset(block->free, 0xff, sizeof(block->free));
        block->nfree = block->longest = BLOCK_PAGES;
        zone_mark_free(zone, block);
    }
    zone->frontier = start + n;
    return zone->first + start;
}

/* ---- giving back ---------------------------------------------------------------------------- */

static void zone_release_run(unsigned at, unsigned pages, void *base)
{
    os_release((char *)base + (size_t)at * PAGE_SIZE, (size_t)pages * PAGE_SIZE);
}

/*
 * The kernel's pages may be larger than ours: one that holds dirty pages and is free as a whole goes
 * back whole, with the clean ones that were zeroed in place when it was not.  How many more there are.
 */
static unsigned zone_widen(const struct block *block, uint64_t mask[BLOCK_WORDS])
{
    unsigned each = (unsigned)(os_page_size() / PAGE_SIZE), more = 0;

    for (unsigned at = 0; each > 1 && each <= 64 && at < BLOCK_PAGES; at += each) {
        uint64_t all = (each == 64 ? ~(uint64_t)0 : ((uint64_t)1 << each) - 1) << at % 64;
        uint64_t *word = &mask[at / 64];
        if (!(*word & all) || (block->free[at / 64] & all) != all)
            continue;
        more += (unsigned)__builtin_popcountll(all & ~*word);
        *word |= all;
    }
    return more;
}

/* Gives one block's dirty pages back; the lock is dropped meanwhile, the pages are taken. */
static size_t zone_purge_block(struct zone *zone, struct block *block)
{
    uint64_t mask[BLOCK_WORDS];
    uint32_t index = zone_block_index(block);
    unsigned pages = block->ndirty, taken;
    bool whole = block->state == BLOCK_FREE;
    /* Or khugepaged would fill the holes again.  Decided under the lock, like all fields of a block:
       another thread may give back other pages of it meanwhile. */
    bool split = !whole && block->huge;

    if (split)
        block->huge = false, block->plain = true;
    memcpy(mask, block->dirty, sizeof(mask));
    taken = pages + zone_widen(block, mask);
    for (int i = 0; i < BLOCK_WORDS; i++)
        block->free[i] &= ~mask[i];
    memset(block->dirty, 0, sizeof(block->dirty));
    block->nfree = (uint16_t)(block->nfree - taken);
    block->ndirty = 0;
    zone->warm_pages -= pages;
    zone->purged += (size_t)pages * PAGE_SIZE;
    if (whole)
        zone_mark_used(zone, block, BLOCK_SPAN);
    zone_file(zone, block);
    atomic_fetch_add_explicit(&zone->purging, 1, memory_order_relaxed);
    lock_drop(&zone->lock, LOCK_ARENA);

    if (split)
        os_huge(zone_address(index), BLOCK_SIZE, false);
    block_each_run(mask, zone_release_run, zone_address(index));
    if (whole && block->meta_high * ARENA_GRANULE > PAGE_SIZE)
        os_release((char *)block + PAGE_SIZE, BLOCK_META - PAGE_SIZE);

    lock_take(&zone->lock, LOCK_ARENA);
    if (atomic_fetch_sub_explicit(&zone->purging, 1, memory_order_relaxed) == 1 && zone->awaited) {
        zone->awaited = false;
        os_wake(&zone->purging, INT32_MAX);
    }
    if (whole)
        block->meta_high = 0;
    for (int i = 0; i < BLOCK_WORDS; i++)
        block->free[i] |= mask[i];
    block->nfree = (uint16_t)(block->nfree + taken);
    block_measure(block);
    if (whole || (block->state == BLOCK_RUNS && block->nfree == BLOCK_PAGES))
        zone_mark_free(zone, block);
    else
        zone_file(zone, block);
    return (size_t)pages * PAGE_SIZE;
}

/*
 * Warm pages go back down to the limit, whole blocks first, then those with most dirty pages.
 * What is given back without being missed shrinks the limit: a program that only frees ends with
 * little, one that breathes keeps what it needs.  Called with the lock held.
 */
size_t zone_purge(struct zone *zone, size_t limit)
{
    size_t bytes = 0;

    while (zone->warm_pages > limit) {
        struct block *block = NULL;
        if (!list_empty(&zone->warm))
            block = LIST_ENTRY(zone->warm.prev, struct block, bucket);
        for (int i = ZONE_BUCKETS - 1; !block && i >= 0; i--)
            if (!list_empty(&zone->soiled[i]))
                block = LIST_ENTRY(zone->soiled[i].prev, struct block, soiled);
        if (!block) /* what is left is being given back by others */
            break;
        bytes += zone_purge_block(zone, block);
    }
    return bytes;
}

void zone_settle(struct zone *zone)
{
    size_t min = ZONE_LIMIT_MIN / PAGE_SIZE, shrink;

    if (zone->warm_pages <= zone->limit_pages + zone->limit_pages / 8)
        return;
    shrink = zone_purge(zone, zone->limit_pages) / PAGE_SIZE / 8;
    if (min > zone->reserve_pages)
        min = zone->reserve_pages;
    zone->limit_pages = zone->limit_pages > min + shrink ? zone->limit_pages - shrink : min;
}

/* A free block to cut into runs: a warm one, an older one, or a new one. */
struct block *zone_take_block(struct zone *zone)
{
    struct block *block = NULL;

    if (!list_empty(&zone->warm)) {
        block = LIST_ENTRY(zone->warm.next, struct block, bucket);
    } else {
        for (uint32_t i = 0; i < zone->frontier && !block; i += 64)
            if (zone->free_map[i / 64])
                block =
                    zone_block(zone->first + i + (uint32_t)__builtin_ctzll(zone->free_map[i / 64]));
    }
    if (!block) {
        int64_t index = zone_grow(zone, 1, 1);
        if (index < 0)
            return NULL;
        block = zone_block((uint32_t)index);
    }
    zone_mark_used(zone, block, BLOCK_RUNS);
    if (zone_all.huge && !block->huge && block->ndirty == 0 &&
        zone_block_index(block) - zone->first >= ZONE_SMALL_BLOCKS) {
        os_huge(zone_address(zone_block_index(block)), BLOCK_SIZE, true);
        block->huge = true, block->plain = false;
    }
    if (block->huge && block->ndirty < BLOCK_PAGES) {
        /* The first touch makes all of it resident: missed by the reserve as a whole. */
        zone->warm_pages += (size_t)(BLOCK_PAGES - block->ndirty);
        zone_account_missed(zone, (size_t)(BLOCK_PAGES - block->ndirty));
        memcpy(block->dirty, block->free, sizeof(block->dirty));
        block->ndirty = BLOCK_PAGES;
    }
    zone_file(zone, block);
    return block;
}
