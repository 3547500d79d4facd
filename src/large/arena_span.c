/* SPDX-License-Identifier: MIT */
/*
 * arena_span.c - whole blocks in a row, for what is larger than a block.
 */
#include "large/arena_span.h"

#include "base/lock.h"
#include "large/kept.h"
#include "large/move.h"
#include "os/os.h"
#include "page/zone.h"

#include <errno.h>
#include <string.h>

enum { ARENA_SPAN_MOVED = 256 }; /* blocks of a span that get pages from elsewhere at most */

/* Which free blocks: any; those without huge pages; those that are mapped; or both. */
enum arena_span_of { ARENA_SPAN_ANY, ARENA_SPAN_PLAIN = 1, ARENA_SPAN_MAPPED = 2 };

/* Free blocks of 64. */
static uint64_t arena_span_word(const struct zone *zone, uint32_t i, unsigned of)
{
    uint64_t word = zone->map[i].free[0];

    if (!(of & ARENA_SPAN_PLAIN))
        word |= zone->map[i].free[1];
    return of & ARENA_SPAN_MAPPED ? word & ~zone->map[i].gone : word;
}

/* A zone's first blocks, of which some pages have no access yet, are for runs. */
static bool arena_span_may_use(uint32_t i)
{
    return zone_block(i)->shown == BLOCK_PAGES;
}

static bool arena_span_is_free(const struct zone *zone, uint32_t at, uint32_t n)
{
    if (at + n > zone->end)
        return false;
    for (uint32_t i = at; n-- > 0; i++)
        if (!(arena_span_word(zone, i / 64, ARENA_SPAN_ANY) >> i % 64 & 1) ||
            !arena_span_may_use(i))
            return false;
    return true;
}

static unsigned arena_span_warm(uint32_t i)
{
    return zone_block(i)->ndirty;
}

/* The free blocks in a row of which most pages are resident, the first of several; or -1. */
static int64_t arena_span_find(struct zone *zone, uint32_t n, uint32_t align, unsigned of)
{
    uint64_t base = pagemap.base >> BLOCK_SHIFT;
    uint32_t run = 0;
    uint64_t warm = 0, most = 0;
    int64_t found = -1;

    for (uint32_t i = zone->first; i < zone->end && most < (uint64_t)n * BLOCK_PAGES; i++) {
        uint64_t word = arena_span_word(zone, i / 64, of);
        if (i % 64 == 0 && word == 0) {
            run = 0;
            i += 63;
            continue;
        }
        if (!(word >> i % 64 & 1) || !arena_span_may_use(i)) {
            run = 0;
            continue;
        }
        warm = run > 0 ? warm + arena_span_warm(i) : arena_span_warm(i);
        if (run++ >= n)
            warm -= arena_span_warm(i - n);
        if (run < n || (base + i - n + 1) % align != 0 || (found >= 0 && warm <= most))
            continue;
        found = (int64_t)i - n + 1;
        most = warm;
        if (zone->warm_pages == 0)
            break;
    }
    return found;
}

/* Free blocks in a row, the mapped ones first, since others cost calls; or -1. */
static int64_t arena_span_mapped(struct zone *zone, uint32_t n, uint32_t align, unsigned of)
{
    int64_t at = -1;
    int error = EEXIST;

    if (zone->clean + zone->warm_pages / BLOCK_PAGES >= n)
        at = arena_span_find(zone, n, align, of | ARENA_SPAN_MAPPED);
    if (at >= 0)
        return at;
    while ((at = arena_span_find(zone, n, align, of)) >= 0 && error == EEXIST) {
        error = zone_remap(zone, (uint32_t)at, n);
        if (!error)
            return at;
    }
    return -1;
}

/*
 * A limit refuses new blocks: free ones that are scattered go for new ones in a row, if the limit has room for what
 * these lack; or -1.
 */
__attribute__((cold, noinline)) static int64_t arena_span_trade(struct zone *zone, uint32_t n,
                                                                uint32_t align)
{
    uint32_t free = 0;
    int64_t at = -1;

    for (uint32_t i = zone->first / 64; i * 64 < zone->end; i++)
        free += (uint32_t)__builtin_popcountll(arena_span_word(zone, i, ARENA_SPAN_MAPPED));
    if (n >= free) {
        size_t lack = (size_t)(n - free + 1) << BLOCK_SHIFT;
        void *trial = free > 0 ? os_map(lack) : NULL;
        if (!trial)
            return -1;
        os_unmap(trial, lack);
    }
    while (at < 0 && zone_unmap_spare(zone, n, ZONE_NO_BLOCK) > 0)
        at = zone_grow(zone, n, align, ZONE_SPANS);
    return at;
}

/*
 * Blocks without huge pages; then any, unless that would split a mapping too many; then new ones; and
 * where limits refuse these, what is mapped.
 */
static int64_t arena_span_search(struct zone *zone, uint32_t n, uint32_t align)
{
    bool always = zone_all.huge == ZONE_HUGE_ALWAYS;
    int64_t at = always ? -1 : arena_span_mapped(zone, n, align, ARENA_SPAN_PLAIN);

    if (at < 0 && (always || zone_may_split()))
        at = arena_span_mapped(zone, n, align, ARENA_SPAN_ANY);
    if (at < 0)
        at = zone_grow(zone, n, align, ZONE_SPANS);
    if (at >= 0)
        return at;
    zone_open_tails(zone);
    at = arena_span_find(zone, n, align, ARENA_SPAN_MAPPED);
    if (at < 0)
        at = arena_span_mapped(zone, n, align, ARENA_SPAN_ANY);
    return at >= 0 ? at : arena_span_trade(zone, n, align);
}

/* A program may touch little of a span.  Without the lock: the blocks are its owner's. */
static void arena_span_unadvise_huge(uint32_t at, uint32_t n)
{
    for (uint32_t i = 0; zone_all.huge == ZONE_HUGE_FULL && i < n; i++)
        if (zone_block(at + i)->huge)
            zone_advise(at + i, 1, false);
}

/* Takes free blocks into a span; how many of their pages were dirty. */
static size_t arena_span_take(struct zone *zone, uint32_t at, uint32_t n)
{
    size_t dirty = 0;

    for (uint32_t i = 0; i < n; i++)
        if (zone_block(at + i)->state != BLOCK_UNUSED) /* of new ones nothing is written */
            zone_mark_used(zone, zone_block(at + i), BLOCK_SPAN);
    for (uint32_t i = 0; i < n; i++) {
        struct block *block = zone_block(at + i);
        unsigned warm = 0;
        if (block->state != BLOCK_UNUSED) {
            warm = block_take(block, 0, BLOCK_PAGES);
            block->longest = 0;
        }
        if (warm == 0 && i < ARENA_SPAN_MOVED)
            warm = move_block(zone, at + i);
        dirty += warm;
    }
    zone_account_take(zone, (size_t)n * BLOCK_PAGES, dirty);
    return dirty;
}

void *arena_span_alloc(unsigned z, size_t blocks, size_t align, bool nospin, bool *zeroed)
{
    struct zone *zone = &zone_all.zone[z];
    uint32_t n = (uint32_t)blocks, step = (uint32_t)(align >> BLOCK_SHIFT);
    size_t dirty;
    int64_t at;

    if (blocks > pagemap.size >> BLOCK_SHIFT || align > pagemap.size ||
        !lock_enter(&zone->lock, LOCK_ARENA, nospin)) {
        errno = ENOMEM;
        return NULL;
    }
    at = arena_span_search(zone, n, step);
    if (at < 0) {
        lock_drop(&zone->lock, LOCK_ARENA);
        errno = ENOMEM;
        return NULL;
    }
    dirty = arena_span_take(zone, (uint32_t)at, n);
    if (dirty < (size_t)n * BLOCK_PAGES)
        zone_purge_scattered(zone, (size_t)n * BLOCK_PAGES - dirty);
    lock_drop(&zone->lock, LOCK_ARENA);
    arena_span_unadvise_huge((uint32_t)at, n);
    if (zeroed)
        *zeroed = dirty == 0;
    return pagemap_block((uint32_t)at);
}

/* Without the lock: of a block in a span, only the span's owner touches these. */
void arena_span_advise(void *at, size_t blocks, bool huge)
{
    if (zone_all.huge == ZONE_HUGE_ALWAYS && blocks > 0)
        zone_advise(pagemap_index(at), (uint32_t)blocks, huge);
}

void arena_span_moved(void *from, void *to, size_t blocks)
{
    for (size_t i = 0; i < blocks; i++) {
        struct block *block = zone_block(pagemap_index(to) + (uint32_t)i);
        (void)zone_set_like(block, zone_block(pagemap_index(from) + (uint32_t)i)->huge,
                            block->moved);
    }
}

/* A block's first span ends: from here on its header says what the block is. */
static void arena_span_open(struct block *block)
{
    if (block->state != BLOCK_UNUSED)
        return;
    block->state = BLOCK_SPAN;
    block->shown = BLOCK_PAGES;
}

/* A span's blocks become such of runs, the first one with metadata.  Where the descriptor lies, or NULL and why. */
static void *arena_span_cut(struct zone *zone, char *span, const struct arena_ask *ask, int *error)
{
    uint32_t first = pagemap_index(span), granule = 0;

    *error = ENOMEM;
    if (!lock_enter(&zone->lock, LOCK_ARENA, ask->nospin))
        return NULL;
    *error = zone_add_meta(zone, zone_block(first));
    if (*error == 0)
        granule = block_take_meta(zone_block(first), zone_granules(first),
                                  (uint32_t)(ask->meta_bytes - 1) / ARENA_GRANULE + 1);
    for (unsigned i = 0; granule > 0 && i < ask->pages / BLOCK_PAGES; i++) {
        arena_span_open(zone_block(first + i));
        zone_block(first + i)->state = BLOCK_RUNS;
        zone_block(first + i)->kind = ZONE_SPARSE;
    }
    lock_drop(&zone->lock, LOCK_ARENA);
    return granule > 0 ? arena_meta(span, granule) : NULL;
}

void *arena_span_slab(unsigned z, const struct arena_ask *ask, void **meta)
{
    size_t blocks = ask->pages / BLOCK_PAGES, align = (size_t)ask->align * PAGE_SIZE;
    int error = EEXIST;
    char *span;

    while (error == EEXIST && (span = arena_span_alloc(z, blocks, align, ask->nospin, NULL))) {
        *meta = arena_span_cut(&zone_all.zone[z], span, ask, &error);
        if (*meta)
            return span;
        /* Something else lies where its metadata would: the first block is lost. */
        span += error == EEXIST ? BLOCK_SIZE : 0;
        arena_span_free(span, blocks - (error == EEXIST));
    }
    errno = ENOMEM;
    return NULL;
}

/* How a span comes back. */
enum arena_span_put { ARENA_SPAN_WARM, ARENA_SPAN_GIVEN, ARENA_SPAN_CLEAN, ARENA_SPAN_UNMAPPED };

/* False: not now (zone_enter()), or (ARENA_SPAN_UNMAPPED) the kernel refuses. */
static bool arena_span_put(void *span, size_t blocks, enum arena_span_put as)
{
    bool keep = as == ARENA_SPAN_WARM;
    struct zone *zone = zone_of(span);
    uint32_t at = pagemap_index(span);

    if (!zone_enter(zone))
        return false;
    if (as == ARENA_SPAN_UNMAPPED && !zone_unmap_taken(zone, at)) {
        lock_drop(&zone->lock, LOCK_ARENA);
        return false;
    }
    zone_set_used(zone, zone->used_pages - blocks * BLOCK_PAGES);
    for (uint32_t i = 0; i < blocks; i++) {
        struct block *block = zone_block(at + i);
        arena_span_open(block);
        block_put(block, 0, BLOCK_PAGES, keep);
        zone_mark_free(zone, block);
    }
    if (keep)
        zone->warm_pages += blocks * BLOCK_PAGES;
    else
        zone->purged += blocks << BLOCK_SHIFT;
    if (as == ARENA_SPAN_GIVEN)
        zone->owed_pages += blocks * BLOCK_PAGES;
    zone_trim(zone, blocks * BLOCK_PAGES);
    lock_drop(&zone->lock, LOCK_ARENA);
    return true;
}

static bool arena_span_back(void *span, size_t blocks, bool may_keep)
{
    struct zone *zone = zone_of(span);
    size_t pages = blocks * BLOCK_PAGES, limit, kept;
    bool keep;

    if (!zone_enter(zone))
        return false;
    limit = zone_limit(zone, zone->used_pages - pages);
    limit += zone_slack(limit);
    kept = arena_kept_in(KEPT_SPAN, pagemap_zone(span));
    keep = pages + kept <= limit;
    may_keep = may_keep && !keep && pages > zone->reserve_pages;
    /* The next one need not come here. */
    kept_limit(limit > zone->warm_pages ? limit - zone->warm_pages : 0);
    lock_drop(&zone->lock, LOCK_ARENA);
    if (!keep) /* beyond what may stay warm: back at once, while still taken */
        os_release(span, blocks << BLOCK_SHIFT);
    return (may_keep && kept_put(KEPT_CLEAN, span, pages)) ||
           arena_span_put(span, blocks, keep ? ARENA_SPAN_WARM : ARENA_SPAN_GIVEN);
}

bool arena_span_free_now(void *span, size_t blocks)
{
    return arena_span_back(span, blocks, false);
}

void arena_span_free(void *span, size_t blocks)
{
    if (!arena_span_back(span, blocks, false))
        arena_leave_span(span, blocks);
}

void arena_span_keep(void *span, size_t blocks)
{
    bool limited = os_space_limit < SIZE_MAX || os_is_data_limited;

    if (!kept_put(KEPT_SPAN, span, blocks * BLOCK_PAGES) &&
        !arena_span_back(span, blocks, !limited))
        arena_leave_span(span, blocks);
}

void arena_span_free_clean(void *span, size_t blocks)
{
    if (!arena_span_put(span, blocks, ARENA_SPAN_CLEAN))
        arena_leave_span(span, blocks);
}

void arena_span_free_closed(void *span, size_t blocks)
{
    char *last = (char *)span + ((blocks - 1) << BLOCK_SHIFT);

    (void)arena_span_put(last, 1, ARENA_SPAN_UNMAPPED);
    if (blocks > 1)
        arena_span_free(span, blocks - 1);
}

/* The blocks behind a span are free, or were never used, or are the next that the zone gets. */
static bool arena_span_follow(struct zone *zone, uint32_t at, uint32_t n)
{
    struct zone_tail *tail = &zone->tail[ZONE_SPANS];
    int64_t got;

    if (arena_span_is_free(zone, at, n))
        return zone_remap(zone, at, n) == 0;
    if (tail->next != at)
        return false;
    got = zone_grow(zone, n, 1, ZONE_SPANS);
    if (got >= 0 && got != at) { /* the window has other blocks behind the tail: they stay unused */
        tail->next = (uint32_t)got;
        zone->opened -= n;
    }
    return got == at;
}

bool arena_span_extend(void *span, size_t blocks, size_t more)
{
    struct zone *zone = zone_of(span);
    uint32_t at = pagemap_index(span) + (uint32_t)blocks;
    bool taken;

    if (more > pagemap.size >> BLOCK_SHIFT)
        return false;
    if (!lock_enter(&zone->lock, LOCK_ARENA, false))
        return false;
    taken = arena_span_follow(zone, at, (uint32_t)more);
    if (taken)
        arena_span_take(zone, at, (uint32_t)more);
    lock_drop(&zone->lock, LOCK_ARENA);
    if (taken)
        arena_span_unadvise_huge(at, (uint32_t)more);
    return taken;
}
