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

    if (!target_read(heap->target, header + view_value(v, VIEW_block_free), clear, sizeof(clear)) ||
        !target_read(heap->target, header + view_value(v, VIEW_block_dirty), dirty, sizeof(dirty)))
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

void heap_each_block(struct heap *heap,
                     void (*fn)(uint64_t address, const uint8_t page[HEAP_BLOCK_PAGES], void *arg),
                     void *arg)
{
    const struct view *v = &heap->view;
    uint64_t first = (heap->begin - heap->base) >> 21,
             end = (heap->end - heap->base + (1 << 21) - 1) >> 21;
    static const enum heap_page kinds[] = {HEAP_PAGE_FULL, HEAP_PAGE_PARTIAL, HEAP_PAGE_EMPTY};
    size_t slab = 0, large = 0;
    unsigned bits = (unsigned)view_value(v, VIEW_PAGEMAP_ZONE_BITS);

    for (uint64_t block = first; block < end; block++) {
        uint8_t page[HEAP_BLOCK_PAGES];
        uint64_t state = view_value(v, VIEW_BLOCK_UNUSED), limit = (block + 1) * HEAP_BLOCK_PAGES;
        uint64_t header = heap->own->header + block * view_value(v, VIEW_BLOCK_HEADER);
        bool any = false;
        uint32_t word;
        memset(page, HEAP_PAGE_COLD, sizeof(page));
        if (target_read(heap->target, heap->own->zone + block * 4, &word, sizeof(word)) &&
            (word & ((1u << bits) - 1)) < heap->own->zones &&
            view_read(v, heap->target, header, VIEW_block_state, &state) &&
            state != view_value(v, VIEW_BLOCK_UNUSED) && state != view_value(v, VIEW_BLOCK_SPAN)) {
            memset(page, HEAP_PAGE_OTHER, sizeof(page));
            map_free(heap, header, page);
        }
        for (; slab < heap->slabs && heap->slab[slab].page < limit; slab++)
            map_fill(page, block, heap->slab[slab].page, 1u << heap->slab[slab].order,
                     kinds[heap->slab[slab].state]);
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
    static char copy[MAP_ROW];
    size_t size = view_size(v, VIEW_tag_counts), came = (size_t)view_value(v, VIEW_tag_counts_came),
           went = (size_t)view_value(v, VIEW_tag_counts_went);
    uint64_t in[2], out[2];

    if (n * size > sizeof(copy) || came + 16 > size || went + 16 > size ||
        !target_read(heap->target, row, copy, n * size))
        return;
    for (unsigned i = 0; i < n; i++) {
        memcpy(in, copy + i * size + came, sizeof(in));
        memcpy(out, copy + i * size + went, sizeof(out));
        tags[i].objects_ever += in[0];
        tags[i].bytes_ever += in[1];
        tags[i].objects += in[0] - out[0];
        tags[i].bytes += in[1] - out[1];
    }
}

bool heap_each_tag(struct heap *heap, void (*fn)(const struct heap_tag *tag, void *arg), void *arg)
{
    enum { CHUNK = 4096 };
    const struct view *v = &heap->view;
    static struct heap_tag tags[CHUNK];
    unsigned shift = (unsigned)view_value(v, VIEW_TAG_CHUNK_SHIFT),
             row = (unsigned)view_value(v, VIEW_ROWS_LARGE);
    uint64_t chunks = view_value(v, VIEW_TAG_CHUNKS), chunk;
    bool any = false;

    if (!view_knows(v, VIEW_at_tag_chunks) || !view_knows(v, VIEW_tag_counts_came) || shift == 0 ||
        1u << shift > CHUNK || row > 24)
        return false;
    for (uint64_t c = 0; c < chunks; c++) {
        unsigned n = 1u << shift;
        if (!target_read(heap->target, view_value(v, VIEW_at_tag_chunks) + c * 8, &chunk,
                         sizeof(chunk)) ||
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
