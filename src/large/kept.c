/* SPDX-License-Identifier: MIT */
/*
 * kept.c - cuts and joins runs and spans that are kept, by compare-and-swap of their words.
 */
#include "large/kept.h"

static _Atomic size_t kept_span_most;

void kept_limit(size_t pages)
{
    atomic_store_explicit(&kept_span_most, pages, memory_order_relaxed);
}

/* Pages that may be kept in a row as one. */
static size_t kept_most(unsigned row)
{
    size_t limit;

    if (row < KEPT_SPAN)
        return row == KEPT_LONG ? BLOCK_PAGES : KEPT_SHORT;
    limit = atomic_load_explicit(&kept_span_most, memory_order_relaxed);
    return row == KEPT_SPAN && limit < arena_kept_mask(row) ? limit : arena_kept_mask(row);
}

/* What lies in front and what lies behind it as one; 0: they do not touch, or are of two blocks or zones. */
static uint64_t kept_joined(unsigned row, uint64_t front, uint64_t behind)
{
    char *from = arena_kept_run(row, front), *at = arena_kept_run(row, behind);

    if ((size_t)(at - from) != arena_kept_pages(row, front) * PAGE_SIZE ||
        (row < KEPT_SPAN ? (uintptr_t)at % BLOCK_SIZE == 0
                         : pagemap_zone(from) != pagemap_zone(at)))
        return 0;
    return front + arena_kept_pages(row, behind);
}

bool kept_put(unsigned row, void *run, size_t pages)
{
    uint64_t own = (uint64_t)(uintptr_t)run | pages;
    size_t most = kept_most(row);

    for (unsigned i = 0; pages <= most && i < arena_kept_runs(row); i++) {
        _Atomic uint64_t *kept = &zone_kept_row[row].run[i];
        uint64_t word = atomic_load_explicit(kept, memory_order_relaxed);
        uint64_t both = word == 0    ? own
                        : word > own ? kept_joined(row, own, word)
                                     : kept_joined(row, word, own);
        if (both == 0 || arena_kept_pages(row, both) > most ||
            !atomic_compare_exchange_strong_explicit(kept, &word, both, memory_order_release,
                                                     memory_order_relaxed))
            continue;
        if (!atomic_load_explicit(&arena_kept_any, memory_order_seq_cst))
            atomic_store_explicit(&arena_kept_any, true, memory_order_seq_cst);
        return true;
    }
    return false;
}
