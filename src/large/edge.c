/* SPDX-License-Identifier: MIT */
/*
 * edge.c - decides which large objects have pages without access at their ends, and takes these pages away again.
 */
#include "large/edge.h"

#include "base/placed.h"
#include "os/os.h"
#include "page/arena.h"
#include "page/block.h"

#include <stdatomic.h>
#include <stdint.h>

/* The first runs that had edges, long ones as several, up to EDGE_FIRST; runs that pass before the next has. */
static _Atomic uint32_t edge_first, edge_left;
static _Atomic uint32_t edge_runs, edge_spans;

/* Freed runs: the first page's address and their number, edges included; 0: none. */
static _Atomic uint64_t edge_held[EDGE_HELD];
static _Atomic uint32_t edge_turn;

static struct {
    _Atomic uintptr_t object; /* 0: no span */
    size_t pages;             /* its owner's to read */
} edge_table[EDGE_SPANS] LARGE_BSS;

/* ---- runs ----------------------------------------------------------------------------------- */

/* Counts may be a few off: threads change them at once. */
static bool edge_is_due(size_t pages)
{
    uint32_t first = atomic_load_explicit(&edge_first, memory_order_relaxed);

    if (pages + 2 > ARENA_RUN_PAGES_MAX || os_page_size() != PAGE_SIZE ||
        atomic_load_explicit(&edge_left, memory_order_relaxed) > 0 ||
        atomic_load_explicit(&edge_runs, memory_order_relaxed) >= EDGE_RUNS)
        return false;
    atomic_fetch_add_explicit(&edge_runs, 1, memory_order_relaxed);
    if (first < EDGE_FIRST)
        atomic_store_explicit(&edge_first, first + 1 + (uint32_t)pages / EDGE_PAGES,
                              memory_order_relaxed);
    else
        atomic_store_explicit(&edge_left, EDGE_ONE_IN, memory_order_relaxed);
    return true;
}

void edge_passed(void)
{
    uint32_t left = atomic_load_explicit(&edge_left, memory_order_relaxed);

    if (left > 0)
        atomic_store_explicit(&edge_left, left - 1, memory_order_relaxed);
}

static void edge_give(void *run, size_t pages)
{
    arena_free_run(run, pages);
    atomic_fetch_sub_explicit(&edge_runs, 1, memory_order_relaxed);
}

void *edge_alloc(unsigned zone, size_t pages, bool *zeroed)
{
    char *run, *behind;

    if (!edge_is_due(pages))
        return NULL;
    run = arena_alloc_run(zone, pages + 2, 1, false, zeroed);
    if (!run) {
        atomic_fetch_sub_explicit(&edge_runs, 1, memory_order_relaxed);
        return NULL;
    }
    behind = run + (pages + 1) * PAGE_SIZE;
    if (os_guard(run, PAGE_SIZE) && os_guard(behind, PAGE_SIZE))
        return run + PAGE_SIZE;
    if (os_unguard(run, PAGE_SIZE))
        edge_give(run, pages + 2);
    return NULL;
}

/* Pages to which the kernel refuses access are lost. */
static size_t edge_release(uint64_t word)
{
    char *run = (char *)(uintptr_t)(word & ~(uint64_t)(PAGE_SIZE - 1));
    size_t pages = word % PAGE_SIZE;

    if (word == 0 || !os_unguard(run, pages * PAGE_SIZE))
        return 0;
    edge_give(run, pages);
    return pages;
}

void edge_free(void *object, size_t pages)
{
    uint64_t word = ((uintptr_t)object - PAGE_SIZE) | (pages + 2);
    uint32_t turn = atomic_fetch_add_explicit(&edge_turn, 1, memory_order_relaxed);

    (void)os_guard(object, pages * PAGE_SIZE); /* refused: it has access until then */
    (void)edge_release(
        atomic_exchange_explicit(&edge_held[turn % EDGE_HELD], word, memory_order_acq_rel));
}

bool edge_drop(void *object, size_t pages)
{
    char *run = (char *)object - PAGE_SIZE, *behind = (char *)object + pages * PAGE_SIZE;

    if (!os_unguard(run, PAGE_SIZE))
        return false;
    if (!os_unguard(behind, PAGE_SIZE)) {
        (void)os_guard(run, PAGE_SIZE);
        return false;
    }
    arena_free_run(behind, 1);
    edge_give(run, 1);
    return true;
}

__attribute__((cold)) size_t edge_trim(void)
{
    size_t pages = 0;

    for (unsigned i = 0; i < EDGE_HELD; i++)
        pages += edge_release(atomic_exchange_explicit(&edge_held[i], 0, memory_order_acq_rel));
    return pages;
}

/* ---- spans ---------------------------------------------------------------------------------- */

/* The span's place in the table, or -1. */
static int edge_find(const void *object)
{
    if (atomic_load_explicit(&edge_spans, memory_order_relaxed) == 0)
        return -1;
    for (int i = 0; i < EDGE_SPANS; i++)
        if (atomic_load_explicit(&edge_table[i].object, memory_order_relaxed) == (uintptr_t)object)
            return i;
    return -1;
}

static char *edge_behind(const void *object, size_t pages)
{
    return (char *)(uintptr_t)object + pages * PAGE_SIZE;
}

void edge_span(void *object, size_t blocks, size_t pages)
{
    size_t rest = blocks * BLOCK_PAGES - pages;

    if (rest == 0 || os_page_size() != PAGE_SIZE ||
        atomic_load_explicit(&edge_spans, memory_order_relaxed) >= EDGE_SPANS || os_is_data_limited)
        return;
    for (unsigned i = 0; i < EDGE_SPANS; i++) {
        uintptr_t none = 0;
        /* Pairs with the release in edge_span_end(): `pages` is not looked at any more. */
        if (!atomic_compare_exchange_strong_explicit(&edge_table[i].object, &none,
                                                     (uintptr_t)object, memory_order_acquire,
                                                     memory_order_relaxed))
            continue;
        edge_table[i].pages = pages;
        atomic_fetch_add_explicit(&edge_spans, 1, memory_order_relaxed);
        if (!os_forbid(edge_behind(object, pages), rest * PAGE_SIZE))
            edge_span_end(object);
        return;
    }
}

size_t edge_span_pages(const void *object, size_t blocks)
{
    int i = edge_find(object);

    return i < 0 ? blocks * BLOCK_PAGES : edge_table[i].pages;
}

bool edge_span_open(void *object, size_t blocks)
{
    int i = edge_find(object);

    return i < 0 || os_unguard(edge_behind(object, edge_table[i].pages),
                               (blocks * BLOCK_PAGES - edge_table[i].pages) * PAGE_SIZE);
}

__attribute__((cold)) void edge_span_close(void *object, size_t blocks)
{
    int i = edge_find(object);

    if (i >= 0)
        (void)os_forbid(edge_behind(object, edge_table[i].pages),
                        (blocks * BLOCK_PAGES - edge_table[i].pages) * PAGE_SIZE);
}

void edge_span_end(const void *object)
{
    int i = edge_find(object);

    if (i < 0)
        return;
    atomic_store_explicit(&edge_table[i].object, 0, memory_order_release);
    atomic_fetch_sub_explicit(&edge_spans, 1, memory_order_relaxed);
}
