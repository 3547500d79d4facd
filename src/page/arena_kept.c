/* SPDX-License-Identifier: MIT */
/*
 * arena_kept.c - gives back and counts runs and spans that are kept.
 */
#include "page/arena_kept.h"

#include "base/hooks.h"

_Static_assert(BLOCK_PAGES < 1 << PAGE_SHIFT, "a run's length has its place below its address");

_Atomic bool arena_kept_any;

static void kept_free(unsigned row, void *run, size_t pages)
{
    if (row < KEPT_SPAN)
        arena_free_run(run, pages);
    else if (!hooks.due(HOOKS_DUE_SPAN, run, pages / BLOCK_PAGES))
        arena_leave_span(run, pages / BLOCK_PAGES);
}

size_t arena_kept_drop_row(unsigned row)
{
    size_t pages = 0;

    for (unsigned i = 0; i < arena_kept_runs(row); i++) {
        _Atomic uint64_t *run = &zone_kept_row[row].run[i];
        uint64_t word = atomic_load_explicit(run, memory_order_relaxed);
        if (word != 0)
            word = atomic_exchange_explicit(run, 0, memory_order_acquire);
        if (word == 0)
            continue;
        kept_free(row, arena_kept_run(row, word), arena_kept_pages(row, word));
        pages += arena_kept_pages(row, word);
    }
    return pages;
}

size_t arena_kept_drop(void)
{
    size_t pages = 0;

    if (!atomic_load_explicit(&arena_kept_any, memory_order_relaxed) ||
        !atomic_exchange_explicit(&arena_kept_any, false, memory_order_seq_cst))
        return 0;
    for (unsigned row = 0; row < KEPT_ROWS; row++)
        pages += arena_kept_drop_row(row);
    return pages;
}

size_t arena_kept(unsigned zone)
{
    size_t pages = 0;

    for (unsigned row = 0; row < KEPT_ROWS; row++)
        pages += arena_kept_in(row, zone);
    return pages;
}
