/* SPDX-License-Identifier: MIT */
/*
 * arena.c - runs of pages: taking them, growing them in place, and giving them back, also beside a fork.
 *
 * What cannot be given back now, since a fork has the zone's lock, goes onto a list of the process by one
 * compare-and-swap, through its own first bytes.  The fork gives it back after its end, parent and child each their
 * own; or the thread that put it there and finds that there is no fork any more.
 */
#include "page/arena.h"

#include "base/hooks.h"
#include "base/lock.h"
#include "page/zone.h"

#include <errno.h>

enum {
    ARENA_TRIES = 8,  /* blocks searched in one bucket … */
    ARENA_LOOKS = 64, /* … and passed, since their metadata are full */
};

/* ---- taking --------------------------------------------------------------------------------- */

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

/* Takes free pages of a block of runs, which may be used; whether they read as zero. */
static bool arena_take_at(struct zone *zone, struct block *block, int at, unsigned pages)
{
    unsigned dirty = block_take(block, (unsigned)at, pages);

    zone_account_take(zone, pages, dirty);
    zone_file(zone, block);
    return dirty == 0;
}

static char *arena_page(const struct block *block, int at)
{
    return pagemap_block(zone_block_index(block)) + (size_t)at * PAGE_SIZE;
}

/* The granule of a descriptor in a block's metadata, which are mapped now; a number where none is wanted; 0: no room. */
static uint32_t arena_room(struct zone *zone, struct block *block, const struct arena_ask *ask)
{
    if (arena_wants_meta(ask) && zone_add_meta(zone, block) != 0)
        return 0;
    return ask->meta_bytes == 0 ? 1
                                : block_take_meta(block, zone_granules(zone_block_index(block)),
                                                  arena_granules(ask->meta_bytes));
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

/* Under the lock.  NULL without memory. */
static struct block *arena_take(struct zone *zone, const struct arena_ask *ask, int *at,
                                uint32_t *granule, bool *zeroed)
{
    enum zone_kind kind = ask->dense ? ZONE_DENSE : ZONE_LOOSE;
    struct block *block = arena_cut(zone, kind, ask, false, at, granule);

    if (!block && (block = zone_take_block(zone, kind, ask, arena_wants_meta(ask))) != NULL) {
        *at = block_find(block, ask->pages, ask->align);
        *granule = arena_room(zone, block, ask);
        if (*granule == 0) {
            zone_file(zone, block);
            return NULL;
        }
    }
    /* Memory is short: beside the other kind; then in any block that was passed over before. */
    if (!block)
        block = arena_cut(zone, !kind, ask, false, at, granule);
    if (!block)
        block = arena_cut(zone, kind, ask, true, at, granule);
    if (!block)
        block = arena_cut(zone, !kind, ask, true, at, granule);
    if (block)
        *zeroed = arena_take_at(zone, block, *at, ask->pages);
    return block;
}

void *arena_alloc(unsigned z, const struct arena_ask *ask, bool *zeroed, void **meta)
{
    struct zone *zone = &zone_all.zone[z];
    struct block *block = NULL;
    uint32_t granule;
    bool zeros = false;
    int at = 0;

    for (unsigned turn = 0;; turn++) {
        if (lock_enter(&zone->lock, LOCK_ARENA, ask->nospin)) {
            block = arena_take(zone, ask, &at, &granule, &zeros);
            lock_drop(&zone->lock, LOCK_ARENA);
            break;
        }
        if (zone_stock_cut(zone, ask, &block, &at, &granule) || ask->nospin)
            break;
        lock_pause(turn);
    }
    if (!block) {
        errno = ENOMEM;
        return NULL;
    }
    if (zeroed)
        *zeroed = zeros;
    if (meta)
        *meta = arena_meta(arena_page(block, at), granule);
    return arena_page(block, at);
}

bool arena_extend_run(void *run, size_t pages, size_t more)
{
    struct zone *zone = zone_of(run);
    struct block *block = zone_block(pagemap_index(run));
    unsigned at = zone_page(run) + (unsigned)pages;
    bool free;

    if (!lock_enter(&zone->lock, LOCK_ARENA, false))
        return false;
    free = block_is_free(block, at, (unsigned)more) && zone_show(block, at + (unsigned)more);
    if (free)
        (void)arena_take_at(zone, block, (int)at, (unsigned)more);
    lock_drop(&zone->lock, LOCK_ARENA);
    return free;
}

/* ---- giving back ---------------------------------------------------------------------------- */

uint32_t arena_granule(const void *address, const void *meta)
{
    return (uint32_t)(((const char *)meta - pagemap_meta(pagemap_index(address))) / ARENA_GRANULE);
}

/* False: a fork has the lock. */
static bool arena_free_now(void *run, size_t pages, void *meta, size_t meta_bytes)
{
    struct zone *zone = zone_of(run);
    uint32_t index = pagemap_index(run);
    struct block *block = zone_block(index);

    if (!lock_enter(&zone->lock, LOCK_ARENA, false))
        return false;
    if (meta)
        block_put_meta(block, zone_granules(index), arena_granule(run, meta),
                       arena_granules(meta_bytes));
    block_put(block, zone_page(run), (unsigned)pages, true);
    zone_set_used(zone, zone->used_pages - pages);
    zone->warm_pages += pages;
    zone_file(zone, block);
    zone_trim(zone);
    lock_drop(&zone->lock, LOCK_ARENA);
    return true;
}

/* In the first bytes of what is left, which nothing else uses any more. */
struct left {
    struct left *next;
    size_t pages, blocks; /* blocks 0: a run */
    void *meta;
    size_t meta_bytes;
};

static _Atomic(struct left *) left_list;

/* Pushed one at a time, and taken all at once: none comes back between two looks. */
static void left_push(struct left *left, struct left what)
{
    what.next = atomic_load_explicit(&left_list, memory_order_relaxed);
    do
        *left = what;
    while (!atomic_compare_exchange_weak_explicit(&left_list, &what.next, left,
                                                  memory_order_acq_rel, memory_order_relaxed));
}

static void left_free(struct left *left)
{
    while (left) {
        struct left own = *left; /* once given back, the pages may be another's, or read as zero */
        bool done = own.blocks > 0 ? hooks.span_free_now(left, own.blocks)
                                   : arena_free_now(left, own.pages, own.meta, own.meta_bytes);
        if (!done)
            left_push(left, own);
        left = own.next;
    }
}

/* Pairs with the end of a fork: it finds what was left before, or this thread sees that it has ended. */
void arena_free_left(void)
{
    while (atomic_load_explicit(&left_list, memory_order_acquire) && !lock_forked())
        left_free(atomic_exchange_explicit(&left_list, NULL, memory_order_acq_rel));
}

/* Of its own: arena_free() lies in the deepest calls of malloc, where its frame counts. */
static __attribute__((noinline)) void left_run(void *run, size_t pages, void *meta,
                                               size_t meta_bytes)
{
    left_push(run, (struct left){NULL, pages, 0, meta, meta_bytes});
    arena_free_left();
}

void arena_free(void *run, size_t pages, void *meta, size_t meta_bytes)
{
    if (__builtin_expect(!arena_free_now(run, pages, meta, meta_bytes), 0))
        left_run(run, pages, meta, meta_bytes);
}

void arena_leave_span(void *span, size_t blocks)
{
    left_push(span, (struct left){NULL, 0, blocks, NULL, 0});
    arena_free_left();
}
