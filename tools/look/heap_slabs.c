/* SPDX-License-Identifier: MIT */
/*
 * heap_slabs.c - slabs and large objects, from the page map.
 *
 * It walks over tables and follows no list, so at most single slabs are torn.  It skips blocks of spans, whose part of the
 * tables may never have been touched.
 */
#include "look/heap_own.h"

#include <stdlib.h>
#include <string.h>

enum {
    SLABS_PAGES = 512, /* of a block */
    SLABS_BATCH = 512, /* blocks whose tables are read at one time */
    SLABS_BIG = 64,
};

/* A block, and what was read of it. */
struct slabs_block {
    uint32_t index;
    uint8_t zone;
    bool entries; /* it has runs: its part of the page map counts */
};

static uint64_t slabs_pages(const struct heap *heap)
{
    return (heap->end - heap->base) >> 12;
}

static void slabs_add_large(struct heap *heap, uint64_t page, uint64_t pages, bool edges)
{
    struct heap_large *more;

    if (pages == 0 || page + pages > slabs_pages(heap) ||
        !(more = heap_row(heap, heap->large, heap->larges, sizeof(*more))))
        return;
    heap->large = more;
    heap->large[heap->larges++] =
        (struct heap_large){heap->base + (page << 12), pages << 12, edges};
}

static void slabs_add(struct heap *heap, const struct heap_slab *slab)
{
    struct heap_slab *more = heap_row(heap, heap->slab, heap->slabs, sizeof(*more));

    if (!more)
        return;
    heap->slab = more;
    heap->slab[heap->slabs++] = *slab;
}

static uint64_t slabs_descriptor(const struct heap *heap, uint32_t block, uint32_t entry)
{
    const struct view *v = &heap->view;

    return heap->own->meta + (uint64_t)block * view_value(v, VIEW_BLOCK_META) +
           (uint64_t)(int16_t)(entry >> 16) * view_value(v, VIEW_ARENA_GRANULE);
}

/* The slab that begins at `page`, whose entry this is.  False: none does; what is there changed meanwhile. */
static bool slabs_read(struct heap *heap, const struct slabs_block *block, uint32_t page,
                       uint32_t entry, struct heap_slab *slab)
{
    const struct view *v = &heap->view;
    const struct heap_cache *cache = heap_cache_at(heap, entry & 0xffff);
    struct view_part copy;
    char room[256];
    uint64_t word;
    bool small;

    *slab = (struct heap_slab){.descriptor = slabs_descriptor(heap, block->index, entry)};
    if (!cache)
        return false;
    copy = view_copy(heap->target, slab->descriptor, view_size(v, VIEW_slab), room);
    if (copy.size == 0 || view_get(v, copy, VIEW_slab_page) != page)
        return false;
    word = view_get(v, copy, VIEW_slab_state);
    slab->page = page;
    slab->cache = (uint16_t)cache->index;
    slab->head = (uint16_t)word;
    slab->inuse = (uint16_t)(word >> 16);
    slab->flags = (uint8_t)(word >> 56);
    small = (slab->flags & view_value(v, VIEW_SLAB_MIN)) != 0;
    slab->objects = (uint16_t)(small ? cache->min_objects : cache->slab_objects);
    slab->order = (uint8_t)(small ? cache->min_order : cache->order);
    slab->node = (uint8_t)(block->zone & (heap->own->zones / 2 - 1));
    slab->state = slab->inuse == 0                              ? HEAP_SLAB_EMPTY
                  : slab->head == view_value(v, VIEW_SLAB_NONE) ? HEAP_SLAB_FULL
                                                                : HEAP_SLAB_PARTIAL;
    if (slab->inuse > slab->objects)
        slab->inuse = slab->objects;
    return slab->node < heap->nodes && slab->objects > 0 &&
           page + (UINT64_C(1) << slab->order) <= slabs_pages(heap);
}

static void slabs_count(struct heap *heap, const struct heap_slab *slab)
{
    struct heap_cache *cache = heap_cache_at(heap, slab->cache);
    struct heap_node *node = &cache->node[slab->node];

    node->slabs++;
    node->objects += slab->objects;
    node->out += slab->inuse;
    node->bytes += (uint64_t)4096 << slab->order;
    node->partial += slab->state == HEAP_SLAB_PARTIAL;
    node->empty += slab->state == HEAP_SLAB_EMPTY;
}

/* A block's entries are here: the pages of its descriptors are about to be read. */
static void slabs_expect_descriptors(struct heap *heap, const struct slabs_block *block)
{
    uint32_t entry[SLABS_PAGES], before = 0;

    if (!target_take(heap->target, heap->own->entry + (uint64_t)block->index * sizeof(entry),
                     &entry))
        return;
    for (unsigned i = 0; i < SLABS_PAGES; i++) {
        if (entry[i] != before && (entry[i] & 0xffff) != 0)
            target_expect(heap->target, slabs_descriptor(heap, block->index, entry[i]),
                          view_size(&heap->view, VIEW_slab));
        before = entry[i];
    }
}

static void slabs_read_big(struct heap *heap, const struct slabs_block *block)
{
    const struct view *v = &heap->view;
    uint32_t big[SLABS_BIG];
    size_t n = view_size(v, VIEW_block_big) / sizeof(big[0]);

    if (!target_take_some(heap->target,
                          heap->own->header +
                              (uint64_t)block->index * view_value(v, VIEW_BLOCK_HEADER) +
                              view_value(v, VIEW_block_big),
                          big, n))
        return;
    for (size_t i = 0; i < n; i++) {
        uint32_t edges = (uint32_t)view_value(v, VIEW_BEGIN_EDGES),
                 pages = big[i] & 0xffff & ~edges;
        if (big[i] && (big[i] >> 16) + pages <= SLABS_PAGES)
            slabs_add_large(heap, (uint64_t)block->index * SLABS_PAGES + (big[i] >> 16), pages,
                            (big[i] & edges) != 0);
    }
}

static bool slabs_read_block(struct heap *heap, const struct slabs_block *block)
{
    uint32_t entry[SLABS_PAGES], first = block->index * SLABS_PAGES,
                                 edges = (uint32_t)view_value(&heap->view, VIEW_BEGIN_EDGES);
    struct heap_slab slab;

    if (!target_take(heap->target, heap->own->entry + (uint64_t)block->index * sizeof(entry),
                     &entry))
        return false;
    for (unsigned i = 0; i < SLABS_PAGES;) {
        if ((entry[i] & 0xffff) == 0) {
            slabs_add_large(heap, first + i, entry[i] >> 16 & ~edges,
                            (entry[i] >> 16 & edges) != 0);
            i++;
        } else if (slabs_read(heap, block, first + i, entry[i], &slab)) {
            slabs_add(heap, &slab);
            slabs_count(heap, &slab);
            i += 1u << slab.order;
        } else {
            i++;
        }
    }
    slabs_read_big(heap, block);
    return true;
}

/* Some blocks: headers, then entries, then descriptors, each in few calls. */
static bool slabs_read_batch(struct heap *heap, struct slabs_block *block, size_t n)
{
    const struct view *v = &heap->view;

    for (size_t i = 0; i < n; i++)
        target_expect(heap->target,
                      heap->own->header +
                          (uint64_t)block[i].index * view_value(v, VIEW_BLOCK_HEADER),
                      view_size(v, VIEW_block));
    for (size_t i = 0; i < n; i++) {
        uint64_t state, header = heap->own->header +
                                 (uint64_t)block[i].index * view_value(v, VIEW_BLOCK_HEADER);
        if (!view_read(v, heap->target, header, VIEW_block_state, &state))
            return false;
        block[i].entries = state == view_value(v, VIEW_BLOCK_RUNS);
    }
    for (size_t i = 0; i < n; i++)
        if (block[i].entries)
            target_expect(heap->target,
                          heap->own->entry + (uint64_t)block[i].index * SLABS_PAGES * 4,
                          SLABS_PAGES * 4);
    for (size_t i = 0; i < n; i++)
        if (block[i].entries)
            slabs_expect_descriptors(heap, &block[i]);
    for (size_t i = 0; i < n; i++)
        if (block[i].entries && !slabs_read_block(heap, &block[i]))
            return false;
    return true;
}

bool heap_read_slabs(struct heap *heap)
{
    const struct view *v = &heap->view;
    uint64_t first = (heap->begin - heap->base) >> 21, end = (heap->end - heap->base) >> 21;
    unsigned bits = (unsigned)view_value(v, VIEW_PAGEMAP_ZONE_BITS);
    struct slabs_block block[SLABS_BATCH];
    size_t n = 0;

    if (bits == 0)
        return false;
    target_expect(heap->target, heap->own->zone + first * 4, (end - first) * 4);
    for (uint64_t i = first; i < end;) {
        uint32_t word, blocks;
        if (!target_take(heap->target, heap->own->zone + i * 4, &word))
            return false;
        blocks = word >> bits;
        if (blocks > 0 && i + blocks <= end) {
            slabs_add_large(heap, i * SLABS_PAGES, (uint64_t)blocks * SLABS_PAGES, false);
            i += blocks;
            continue;
        }
        block[n++] =
            (struct slabs_block){(uint32_t)i++, (uint8_t)(word & ((1u << bits) - 1)), false};
        if (block[n - 1].zone >= heap->own->zones) /* no zone's: a place that was skipped */
            n--;
        if (n == SLABS_BATCH) {
            if (!slabs_read_batch(heap, block, n))
                return false;
            n = 0;
        }
    }
    if (!slabs_read_batch(heap, block, n))
        return false;
    if (heap->larges > 0)
        qsort(heap->large, heap->larges, sizeof(*heap->large), target_by_number);
    return !heap->target->over;
}

const struct heap_slab *heap_slab_of(const struct heap *heap, const struct heap_cache *cache,
                                     const struct heap_slab *slab)
{
    for (slab = slab ? slab : heap->slab; slab && slab < heap->slab + heap->slabs; slab++)
        if (slab->cache == cache->index)
            return slab;
    return NULL;
}

const char *heap_slab_state_name(const struct heap_slab *slab)
{
    static const char *const names[] = {"full", "partial", "empty"};

    return names[slab->state];
}
