/* SPDX-License-Identifier: MIT */
/*
 * heap_rows.c - the rows of a table of caches, in an order: caches, large objects, and the library's own caches as one row.
 */
#include "look/heap.h"

#include <stdlib.h>
#include <string.h>

const char *const heap_sort_names[HEAP_SORTS + 1] = {"resident", "in-use",  "cached", "wasted",
                                                     "peak",     "objects", "name"};

static enum heap_sort rows_sort; /* of rows_order(), which qsort() passes nothing else */

static uint64_t rows_value(const struct heap_row *row)
{
    const struct heap_bytes *bytes = &row->count.bytes;
    const uint64_t values[HEAP_SORTS] = {bytes->resident, bytes->in_use, bytes->cached,
                                         bytes->wasted,   bytes->peak,   row->count.active};

    return values[rows_sort];
}

/* The largest first; names, which decide between equal ones, from A on. */
static int rows_order(const void *left, const void *right)
{
    uint64_t a = rows_value(left), b = rows_value(right);

    return a != b ? (a > b ? -1 : 1)
                  : strcmp(((const struct heap_row *)left)->name,
                           ((const struct heap_row *)right)->name);
}

struct heap_row *heap_rows(const struct heap *heap, bool all, enum heap_sort sort, size_t *rows)
{
    struct heap_row *row = target_need(calloc(heap->caches + 2, sizeof(*row)));
    struct heap_bytes large = {.resident = heap->large_bytes, .in_use = heap->large_bytes};
    size_t n = 1;

    row[0].name = HEAP_ROW_LIBRARY;
    for (size_t i = 0; i < heap->caches; i++) {
        const struct heap_cache *cache = &heap->cache[i];
        if (cache->internal && !all)
            heap_add(&row[0].count, &cache->count);
        else if (cache->count.bytes.resident > 0 || all)
            row[n++] = (struct heap_row){cache->name, cache, cache->count};
    }
    if (heap->large_objects > 0 || all)
        row[n++] = (struct heap_row){
            HEAP_ROW_LARGE,
            NULL,
            {.active = heap->large_objects, .total = heap->large_objects, .bytes = large}};
    if (row[0].count.bytes.resident == 0)
        row[0] = row[--n];
    rows_sort = sort;
    qsort(row, n, sizeof(*row), rows_order);
    *rows = n;
    return row;
}
