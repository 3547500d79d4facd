/* SPDX-License-Identifier: MIT */
/*
 * pagemap.h - one 32-bit entry a page of the arena, flat: address -> cache in one load.
 *
 *   bits 0-15   the cache's slot index (0: no slab; slot 0 never gets a sheaf on any CPU)
 *   bits 16-31  where the page's slab or run descriptor lies: granule in its block's metadata
 *
 * An entry is written before the first object of its page is handed out and cleared after the
 * last came back, under the arena's lock or by the only owner of the pages; readers hold an
 * object of the page, so they need no ordering of their own.
 */
#ifndef STOOK_PAGE_PAGEMAP_H
#define STOOK_PAGE_PAGEMAP_H

#include <stddef.h>
#include <stdint.h>

enum {
    PAGE_SHIFT = 12,
    PAGE_SIZE = 1 << PAGE_SHIFT,
    BLOCK_SHIFT = 21,
    BLOCK_SIZE = 1 << BLOCK_SHIFT,
    BLOCK_PAGES = BLOCK_SIZE / PAGE_SIZE,
    BLOCK_META = 320 << 10, /* room for the worst layout: 512 slabs of 256 outside links each */
};

/* The arena as every lookup sees it; written once by arena_init(), `used` grows. */
struct pagemap {
    uintptr_t base;  /* of the arena, aligned to a block */
    size_t size;     /* of the arena; 0 before init: no address is ours */
    uint32_t *entry; /* one a page; all pages of the arena (unused parts read-only zero) */
    char *meta;      /* BLOCK_META bytes a block */
    unsigned zone_shift;
    unsigned zones; /* objects of node n are in zone n, the library's own in zone zones/2 + n */
};
extern struct pagemap pagemap __attribute__((visibility("hidden")));

/* Any pointer may be asked. */
static inline int pagemap_covers(const void *address)
{
    return (uintptr_t)address - pagemap.base < pagemap.size;
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

/* Zone and node of an address of the arena, from bits of the address. */
static inline unsigned pagemap_zone(const void *address)
{
    return (unsigned)(((uintptr_t)address - pagemap.base) >> pagemap.zone_shift);
}

static inline unsigned pagemap_node(const void *address)
{
    return pagemap_zone(address) & (pagemap.zones / 2 - 1);
}

#endif
