/* SPDX-License-Identifier: MIT */
/*
 * arena.c - runs of pages: taking them, growing them in place, and giving them back, also beside a fork.
 *
 * A run that cannot be given back now goes onto a list of the process by one compare-and-swap, through its own first
 * bytes.  If a fork has the zone's lock, the fork gives it back after its end, parent and child each their own.  So does
 * the thread that put it there, if it finds that there is no fork any more.  If a handler interrupted the library on this
 * thread, which may hold the lock, the interrupted call gives it back when it leaves the library.
 */
#include "page/arena.h"

#include "base/context.h"
#include "base/hooks.h"
#include "base/lock.h"
#include "os/os.h"
#include "page/zone.h"

#include <errno.h>

enum {
    ARENA_TRIES = 8,   /* blocks searched in one bucket … */
    ARENA_PASSED = 64, /* … and those, of which some are passed since their metadata are full */
};

/* ---- taking --------------------------------------------------------------------------------- */

static uint32_t arena_granules(size_t bytes)
{
    return (uint32_t)((bytes + ARENA_GRANULE - 1) / ARENA_GRANULE);
}

/* A block of the kind that has the pages free, of some that are looked at. */
static bool arena_find(struct zone *zone, enum zone_kind kind, struct zone_cut *cut)
{
    struct list *runs = zone->runs[kind];

    for (unsigned b = zone_log2(cut->ask->pages); b < ZONE_BUCKETS; b++) {
        struct list *link = runs[b].next;
        int tries = 0;
        for (int passed = 0; link != &runs[b] && tries < ARENA_TRIES && passed < ARENA_PASSED;
             passed++) {
            struct block *block = LIST_ENTRY(link, struct block, bucket);
            link = link->next;
            if (!block_may_take_meta(block, cut->granules))
                continue;
            if (zone_find(block, cut))
                return true;
            tries++;
            block_measure(block);
            if (zone_log2(block->longest) != b) /* the bound was stale */
                zone_file(zone, block);
        }
    }
    return false;
}

/* Takes free pages of a block of runs, which may be used; whether they read as zero. */
static bool arena_take_at(struct zone *zone, struct block *block, unsigned at, unsigned pages)
{
    unsigned dirty = block_take(block, at, pages);

    zone_account_take(zone, pages, dirty);
    zone_file(zone, block);
    return dirty == 0;
}

/* Maps the block's metadata, and takes the granules of a descriptor, if these are wanted; false: there is no room. */
static bool arena_room(struct zone *zone, struct zone_cut *cut)
{
    if (cut->meta && zone_add_meta(zone, cut->block) != 0)
        return false;
    if (cut->granules == 0)
        return true;
    cut->granule =
        block_take_meta(cut->block, zone_granules(zone_block_index(cut->block)), cut->granules);
    return cut->granule > 0;
}

/* Free pages of a block of that kind, with room for a descriptor, which is taken.  The pages may be used. */
static bool arena_cut(struct zone *zone, enum zone_kind kind, struct zone_cut *cut)
{
    for (int tries = 0; tries < ARENA_TRIES && arena_find(zone, kind, cut); tries++) {
        if (!zone_show(cut->block, cut->at + cut->ask->pages))
            return false;
        if (arena_room(zone, cut))
            return true;
        if (block_may_take_meta(cut->block, cut->granules))
            return false; /* a limit; else they are full, or in pieces, and the block says so from now on */
    }
    return false;
}

/* The same of a block that was free. */
static bool arena_cut_free(struct zone *zone, enum zone_kind kind, struct zone_cut *cut)
{
    if (!zone_take_block(zone, kind, cut))
        return false;
    if (arena_room(zone, cut))
        return true;
    zone_file(zone, cut->block);
    return false;
}

/* The same of any block that needs nothing of the kernel, where memory is short. */
__attribute__((cold, noinline)) static bool arena_cut_ready(struct zone *zone, enum zone_kind kind,
                                                            struct zone_cut *cut)
{
    while (zone_take_ready(zone, kind, cut)) {
        if (arena_room(zone, cut))
            return true;
        zone_file(zone, cut->block);
    }
    return false;
}

/* Under the lock.  False without memory. */
static bool arena_take(struct zone *zone, struct zone_cut *cut, bool *zeroed)
{
    enum zone_kind kind = cut->ask->dense ? ZONE_DENSE : ZONE_SPARSE;

    if (!arena_cut(zone, kind, cut) && !arena_cut_free(zone, kind, cut) &&
        !arena_cut(zone, !kind, cut) && !arena_cut_ready(zone, kind, cut))
        return false;
    *zeroed = arena_take_at(zone, cut->block, cut->at, cut->ask->pages);
    return true;
}

void *arena_alloc(unsigned z, const struct arena_ask *ask, bool *zeroed, void **meta)
{
    struct zone *zone = &zone_all.zone[z];
    /* Runs have no metadata until something is said of one. */
    struct zone_cut cut = {
        .ask = ask,
        .granules = arena_granules(ask->meta_bytes),
        .meta = ask->meta_bytes > 0 || atomic_load_explicit(&zone_all.noted, memory_order_relaxed),
    };
    bool zeros = false, done = false;
    char *run;

    if (ask->pages > BLOCK_PAGES)
        return hooks.span ? hooks.span(z, ask, meta) : NULL;
    for (unsigned turn = 0;; turn++) {
        if (lock_enter(&zone->lock, LOCK_ARENA, ask->nospin)) {
            done = arena_take(zone, &cut, &zeros);
            lock_drop(&zone->lock, LOCK_ARENA);
            break;
        }
        if (zone_stock_cut(zone, &cut, &done) || ask->nospin)
            break;
        lock_pause(turn);
    }
    if (!done) {
        errno = ENOMEM;
        return NULL;
    }
    run = pagemap_block(zone_block_index(cut.block)) + (size_t)cut.at * PAGE_SIZE;
    if (zeroed)
        *zeroed = zeros;
    if (meta)
        *meta = arena_meta(run, cut.granule);
    return run;
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
        (void)arena_take_at(zone, block, at, (unsigned)more);
    lock_drop(&zone->lock, LOCK_ARENA);
    return free;
}

/* ---- giving back ---------------------------------------------------------------------------- */

uint32_t arena_granule(const void *address, const void *meta)
{
    return (uint32_t)(((const char *)meta - pagemap_meta(pagemap_index(address))) / ARENA_GRANULE);
}

/* False: not now. */
static bool arena_free_now(void *run, size_t pages, void *meta, size_t meta_bytes)
{
    struct zone *zone = zone_of(run);
    uint32_t index = pagemap_index(run);
    struct block *block = zone_block(index);

    if (!zone_enter(zone))
        return false;
    if (meta)
        block_put_meta(block, zone_granules(index), arena_granule(run, meta),
                       arena_granules(meta_bytes));
    block_put(block, zone_page(run), (unsigned)pages, true);
    zone_set_used(zone, zone->used_pages - pages);
    zone->warm_pages += pages;
    zone_file(zone, block);
    zone_trim(zone, pages);
    lock_drop(&zone->lock, LOCK_ARENA);
    return true;
}

/* khugepaged would fill the hole again in a block that has huge pages. */
__attribute__((cold)) void arena_release(void *run, size_t pages)
{
    struct zone *zone = zone_of(run);

    if (zone_enter(zone)) {
        if (zone_may_split())
            zone_advise(pagemap_index(run), 1, false);
        lock_drop(&zone->lock, LOCK_ARENA);
    }
    os_release(run, pages * PAGE_SIZE);
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
static __attribute__((cold)) void left_push(struct left *left, struct left what)
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
        bool done = own.blocks > 0 ? hooks.due(HOOKS_DUE_SPAN, left, own.blocks)
                                   : arena_free_now(left, own.pages, own.meta, own.meta_bytes);
        if (!done)
            left_push(left, own);
        left = own.next;
    }
}

/* Pairs with the end of a fork: it finds what was left before, or this thread sees that it has ended. */
__attribute__((cold)) void arena_free_left(void)
{
    bool nested = context_self()->depth > 1;

    atomic_store_explicit(&context_self()->pages, nested, memory_order_relaxed);
    if (nested)
        return;
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
    if (__builtin_expect(pages > BLOCK_PAGES, 0)) { /* the blocks behind the first one */
        arena_free_run((char *)run + BLOCK_SIZE, pages - BLOCK_PAGES);
        pages = BLOCK_PAGES;
    }
    if (__builtin_expect(!arena_free_now(run, pages, meta, meta_bytes), 0))
        left_run(run, pages, meta, meta_bytes);
}

__attribute__((cold)) void arena_leave_span(void *span, size_t blocks)
{
    left_push(span, (struct left){NULL, 0, blocks, NULL, 0});
    arena_free_left();
}
