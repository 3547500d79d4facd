/* SPDX-License-Identifier: MIT */
/*
 * heap_map.c - what each page is, and what each call site has: for pictures.
 */
#include "look/heap_own.h"

#include <string.h>

/* ---- pages ------------------------------------------------------------------------------------ */

/* From the block's header: what is free, and of that what is resident. */
static void map_free(struct heap *heap, uint64_t header, uint8_t page[HEAP_BLOCK_PAGES])
{
    const struct view *v = &heap->view;
    uint64_t clear[HEAP_BLOCK_PAGES / 64], dirty[HEAP_BLOCK_PAGES / 64];

    if (!target_take(heap->target, header + view_value(v, VIEW_block_free), &clear) ||
        !target_take(heap->target, header + view_value(v, VIEW_block_dirty), &dirty))
        return;
    for (unsigned i = 0; i < HEAP_BLOCK_PAGES; i++)
        if (clear[i / 64] >> i % 64 & 1)
            page[i] = dirty[i / 64] >> i % 64 & 1 ? HEAP_PAGE_WARM : HEAP_PAGE_COLD;
}

/* The pages of [first, first + n) that lie in the block. */
static void map_fill(uint8_t page[HEAP_BLOCK_PAGES], uint64_t block, uint64_t first, uint64_t n,
                     enum heap_page kind)
{
    uint64_t begin = block * HEAP_BLOCK_PAGES;

    for (uint64_t i = first < begin ? begin : first; i < first + n && i < begin + HEAP_BLOCK_PAGES;
         i++)
        page[i - begin] = (uint8_t)kind;
}

static enum heap_page map_slab(const struct heap_slab *slab)
{
    return slab->state == HEAP_SLAB_EMPTY     ? HEAP_PAGE_EMPTY
           : slab->state == HEAP_SLAB_FULL    ? HEAP_PAGE_FULL
           : 4 * slab->inuse <= slab->objects ? HEAP_PAGE_SPARSE
           : 2 * slab->inuse <= slab->objects ? HEAP_PAGE_HALF
                                              : HEAP_PAGE_PARTIAL;
}

void heap_each_block(struct heap *heap,
                     void (*fn)(uint64_t address, const uint8_t page[HEAP_BLOCK_PAGES], void *arg),
                     void *arg)
{
    const struct view *v = &heap->view;
    uint64_t first = (heap->begin - heap->base) >> 21,
             end = (heap->end - heap->base + (1 << 21) - 1) >> 21;
    size_t slab = 0, large = 0;
    unsigned bits = (unsigned)view_value(v, VIEW_PAGEMAP_ZONE_BITS);

    for (uint64_t block = first; block < end && !heap->target->over; block++) {
        uint8_t page[HEAP_BLOCK_PAGES];
        uint64_t state = view_value(v, VIEW_BLOCK_UNUSED), limit = (block + 1) * HEAP_BLOCK_PAGES;
        uint64_t header = heap->own->header + block * view_value(v, VIEW_BLOCK_HEADER);
        bool any = false;
        uint32_t word;
        memset(page, HEAP_PAGE_COLD, sizeof(page));
        if (target_take(heap->target, heap->own->zone + block * 4, &word) &&
            (word & ((1u << bits) - 1)) < heap->own->zones &&
            view_read(v, heap->target, header, VIEW_block_state, &state) &&
            state != view_value(v, VIEW_BLOCK_UNUSED) && state != view_value(v, VIEW_BLOCK_SPAN)) {
            memset(page, HEAP_PAGE_OTHER, sizeof(page));
            map_free(heap, header, page);
        }
        for (; slab < heap->slabs && heap->slab[slab].page < limit; slab++) {
            map_fill(page, block, heap->slab[slab].page, 1u << heap->slab[slab].order,
                     map_slab(&heap->slab[slab]));
            if (heap->slab[slab].page + (UINT64_C(1) << heap->slab[slab].order) > limit)
                break; /* it goes on in the next */
        }
        for (; large < heap->larges; large++) {
            uint64_t at = (heap->large[large].address - heap->base) >> 12,
                     n = heap->large[large].bytes >> 12;
            if (at >= limit)
                break;
            map_fill(page, block, at - heap->large[large].edges, n + 2 * heap->large[large].edges,
                     HEAP_PAGE_LARGE);
            if (at + n > limit) /* it goes on in the next */
                break;
        }
        for (unsigned i = 0; i < HEAP_BLOCK_PAGES && !any; i++)
            any = page[i] != HEAP_PAGE_COLD;
        if (any)
            fn(heap->base + (block << 21), page, arg);
    }
}

/* ---- call sites ------------------------------------------------------------------------------- */

enum { MAP_ROW = 64 << 10 };

/* The counts of a row of a chunk, added up. */
static void map_add_row(struct heap *heap, uint64_t row, struct heap_tag *tags, unsigned n)
{
    const struct view *v = &heap->view;
    static char room[MAP_ROW];
    uint64_t size = view_size(v, VIEW_tag_counts);
    struct view_part copy = view_copy(heap->target, row, n * size, room);

    for (unsigned i = 0; i < n && copy.size > 0; i++) {
        struct view_part tag = view_within(copy, i * size, size),
                         in = view_field(v, tag, VIEW_tag_counts_came),
                         out = view_field(v, tag, VIEW_tag_counts_went);
        tags[i].objects_ever += view_element(in, 0, 8);
        tags[i].bytes_ever += view_element(in, 1, 8);
        tags[i].objects += view_element(in, 0, 8) - view_element(out, 0, 8);
        tags[i].bytes += view_element(in, 1, 8) - view_element(out, 1, 8);
    }
}

bool heap_each_tag(struct heap *heap, void (*fn)(const struct heap_tag *tag, void *arg), void *arg)
{
    const struct view *v = &heap->view;
    static struct heap_tag tags[VIEW_TAG_CHUNK];
    unsigned shift = (unsigned)view_value(v, VIEW_TAG_CHUNK_SHIFT),
             row = (unsigned)view_value(v, VIEW_ROWS_LARGE);
    uint64_t chunks = view_value(v, VIEW_TAG_CHUNKS), chunk;
    bool any = heap_each_sample(heap, fn, arg);

    if (!view_knows(v, VIEW_at_tag_chunks) || !view_knows(v, VIEW_tag_counts_came) || shift == 0)
        return any;
    for (uint64_t c = 0; c < chunks && !heap->target->over; c++) {
        unsigned n = 1u << shift;
        if (!target_take(heap->target, view_value(v, VIEW_at_tag_chunks) + c * 8, &chunk) ||
            chunk == 0)
            continue;
        memset(tags, 0, sizeof(tags));
        map_add_row(heap, chunk, tags, n); /* of threads without a CPU */
        for (unsigned cpu = 0; cpu < heap->rows; cpu++)
            if (heap->used[cpu])
                map_add_row(heap, chunk + ((uint64_t)(cpu + 1) << row), tags, n);
        for (unsigned i = 0; i < n; i++) {
            tags[i].tag = (uint32_t)(c << shift | i);
            if (tags[i].tag == 0 || tags[i].objects_ever == 0)
                continue;
            if (tags[i].objects >> 63 || tags[i].bytes >> 63)
                tags[i].objects = tags[i].bytes = 0; /* rows that were read at different times */
            any = true;
            fn(&tags[i], arg);
        }
    }
    return any;
}
