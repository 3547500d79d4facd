/* SPDX-License-Identifier: MIT */
/*
 * pagemap.h - one 32-bit entry a page of the window, flat: address -> cache in one load.
 *
 *   bits 0-15   the cache's slot index (0: no slab; slot 0 never gets a sheaf on any CPU)
 *   bits 16-31  where the page's slab descriptor lies: granule of its block's metadata, or, below 0, of an earlier
 *               block's; without a cache, the pages of the run that begins here (large/begin.h)
 *
 * An entry is written before the first object of its page is handed out and cleared after the
 * last came back, under the arena's lock or by the only owner of the pages.  Readers hold an
 * object of the page, so they need no ordering of their own.
 */
#ifndef STOOK_PAGE_PAGEMAP_H
#define STOOK_PAGE_PAGEMAP_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

enum {
    PAGE_SHIFT = 12,
    PAGE_SIZE = 1 << PAGE_SHIFT,
    BLOCK_SHIFT = 21,
    BLOCK_SIZE = 1 << BLOCK_SHIFT,
    BLOCK_PAGES = BLOCK_SIZE / PAGE_SIZE,
    BLOCK_META = 320 << 10, /* room for the worst layout: 512 slabs of 256 outside links each */
    BLOCK_HEADER = 256,     /* of struct block */
    PAGEMAP_ZONE_BITS = 8,  /* of a block's word in `zone`: above them, blocks of a span */
    PAGEMAP_ZONE = (1 << PAGEMAP_ZONE_BITS) - 1,
};

/*
 * The window as every lookup sees it.  Constant after window_init() except `low` and `high`, which
 * window.c moves under its lock.  It is used from a place within it outwards.  Blocks of objects lie in
 * [middle, middle + low), the library's own in [base + high, middle), so each part that is mapped is in one
 * piece.  There every page has an entry and every block a header and a word in `zone`, in places
 * that were skipped, too.
 */
struct pagemap {
    uintptr_t base;      /* of the window, aligned to a block: block 0 */
    uintptr_t middle;    /* where objects begin */
    size_t size;         /* of the window; 0 before init: no address is ours */
    _Atomic size_t low;  /* bytes of blocks of objects; grows */
    _Atomic size_t high; /* from base to the library's own blocks; shrinks */
    uint32_t *entry;     /* one a page of the window */
    char *meta;          /* BLOCK_META bytes a block */
    char *header;        /* BLOCK_HEADER bytes a block */
    uint32_t *zone; /* one a block: its zone; where a span begins, also how many blocks it has */
    unsigned zones; /* objects of node n are in zone n, the library's own in zone zones/2 + n */
};
extern struct pagemap pagemap __attribute__((visibility("hidden")));

/* It lies where objects lie, and none of the library's own does: for fast paths, any pointer.  Relaxed:
 * an address comes to a thread after the store that covers it. */
static inline int pagemap_is_low(const void *address)
{
    return (uintptr_t)address - pagemap.middle <
           atomic_load_explicit(&pagemap.low, memory_order_relaxed);
}

/* Any pointer may be asked. */
static inline int pagemap_covers(const void *address)
{
    uintptr_t own;

    if (__builtin_expect(pagemap_is_low(address), 1))
        return 1;
    own = pagemap.base + atomic_load_explicit(&pagemap.high, memory_order_relaxed);
    return (uintptr_t)address - own < pagemap.middle - own;
}

/* Only of addresses that pagemap_covers(). */
static inline uint32_t *pagemap_at(const void *address)
{
    return &pagemap.entry[((uintptr_t)address - pagemap.base) >> PAGE_SHIFT];
}

static inline uint32_t pagemap_entry(uint32_t cache, uint32_t granule)
{
    return cache | granule << 16;
}

static inline uint32_t pagemap_cache(uint32_t entry)
{
    return entry & 0xffff;
}

static inline uint32_t pagemap_granule(uint32_t entry)
{
    return entry >> 16;
}

/* The number of an address's block; where a block and its metadata begin. */
static inline uint32_t pagemap_index(const void *address)
{
    return (uint32_t)(((uintptr_t)address - pagemap.base) >> BLOCK_SHIFT);
}

static inline char *pagemap_block(uint32_t index)
{
    return (char *)pagemap.base + ((size_t)index << BLOCK_SHIFT);
}

static inline char *pagemap_meta(uint32_t index)
{
    return pagemap.meta + (size_t)index * BLOCK_META;
}

/* Zone and node of an address of the arena: a word a block, 16 blocks a cache line. */
static inline unsigned pagemap_zone(const void *address)
{
    size_t index = ((uintptr_t)address - pagemap.base) >> BLOCK_SHIFT;

    return __atomic_load_n(&pagemap.zone[index], __ATOMIC_RELAXED) & PAGEMAP_ZONE;
}

static inline unsigned pagemap_node(const void *address)
{
    return pagemap_zone(address) & (pagemap.zones / 2 - 1);
}

#endif
