/* SPDX-License-Identifier: MIT */
/*
 * arena_kept.c - rows of freed runs, by CPU and for the process, with an atomic exchange for each place.
 */
#include "page/arena_kept.h"

#include "base/placed.h"

#include <stdatomic.h>

enum {
    KEPT_PAGES_BITS = PAGE_SHIFT, /* below the run's address */
    KEPT_NEAR = 16,               /* a run may be longer than asked by one page of so many */
};

_Static_assert(BLOCK_PAGES < 1 << KEPT_PAGES_BITS,
               "a run's length has its place below its address");

struct arena_kept arena_kept_row[KEPT_CPUS + 1] LARGE_BSS;

/* A bit each of rows in which something may be kept: the thread that clears it looks there. */
static _Atomic uint64_t kept_some[2];

static void kept_mark(const struct arena_kept *row)
{
    unsigned i = (unsigned)(row - arena_kept_row);
    uint64_t bit = (uint64_t)1 << i % 64;

    /* Behind the run's own word: a thread that clears the bit before this sees the run, or the bit is set. */
    if (!(atomic_load_explicit(&kept_some[i / 64], memory_order_seq_cst) & bit))
        atomic_fetch_or_explicit(&kept_some[i / 64], bit, memory_order_seq_cst);
}

static struct arena_kept *kept_row(int cpu, size_t pages)
{
    return &arena_kept_row[pages <= KEPT_SHORT ? (unsigned)cpu % KEPT_CPUS : KEPT_CPUS];
}

static unsigned kept_places(size_t pages)
{
    return pages <= KEPT_SHORT ? KEPT_RUNS : 1;
}

static void *kept_run(uint64_t word)
{
    return (void *)(uintptr_t)(word >> KEPT_PAGES_BITS << KEPT_PAGES_BITS);
}

static size_t kept_pages(uint64_t word)
{
    return word & (((uint64_t)1 << KEPT_PAGES_BITS) - 1);
}

static size_t kept_drop_row(struct arena_kept *row)
{
    size_t pages = 0;

    for (unsigned i = 0; i < KEPT_RUNS; i++) {
        uint64_t word = atomic_load_explicit(&row->run[i], memory_order_relaxed);
        if (word != 0)
            word = atomic_exchange_explicit(&row->run[i], 0, memory_order_acquire);
        if (word == 0)
            continue;
        arena_free_run(kept_run(word), kept_pages(word));
        pages += kept_pages(word);
    }
    return pages;
}

void *arena_kept_take(int cpu, unsigned zone, size_t pages, bool nospin, size_t *had)
{
    struct arena_kept *row = kept_row(cpu, pages);

    for (unsigned i = 0; i < kept_places(pages); i++) {
        uint64_t word = atomic_load_explicit(&row->run[i], memory_order_relaxed);
        size_t more = kept_pages(word) - pages; /* of fewer pages: a large number */
        if (word == 0 || more > pages / KEPT_NEAR || pagemap_zone(kept_run(word)) != zone)
            continue;
        /* Pairs with the release of the thread that freed it. */
        if (!atomic_compare_exchange_strong_explicit(&row->run[i], &word, 0, memory_order_acquire,
                                                     memory_order_relaxed))
            continue;
        *had = pages + more;
        return kept_run(word);
    }
    if (!nospin) {
        (void)kept_drop_row(row);
        if (row != &arena_kept_row[KEPT_CPUS])
            (void)kept_drop_row(&arena_kept_row[KEPT_CPUS]);
    }
    return NULL;
}

bool arena_kept_put(int cpu, void *run, size_t pages)
{
    struct arena_kept *row = kept_row(cpu, pages);
    uint64_t own = (uint64_t)(uintptr_t)run | pages;

    for (unsigned i = 0; i < kept_places(pages); i++) {
        uint64_t word = atomic_load_explicit(&row->run[i], memory_order_relaxed);
        if (word == 0 &&
            atomic_compare_exchange_strong_explicit(&row->run[i], &word, own, memory_order_release,
                                                    memory_order_relaxed)) {
            kept_mark(row);
            return true;
        }
    }
    return false;
}

size_t arena_kept_drop(void)
{
    size_t pages = 0;

    for (unsigned i = 0; i < 2; i++) {
        uint64_t some = atomic_load_explicit(&kept_some[i], memory_order_relaxed);
        if (some != 0)
            some = atomic_exchange_explicit(&kept_some[i], 0, memory_order_seq_cst);
        for (; some != 0; some &= some - 1)
            pages += kept_drop_row(&arena_kept_row[i * 64 + (unsigned)__builtin_ctzll(some)]);
    }
    return pages;
}

size_t arena_kept(unsigned zone)
{
    size_t pages = 0;

    for (unsigned i = 0; i <= KEPT_CPUS; i++)
        for (unsigned j = 0; j < KEPT_RUNS; j++) {
            uint64_t word = atomic_load_explicit(&arena_kept_row[i].run[j], memory_order_relaxed);
            if (word != 0 && pagemap_zone(kept_run(word)) == zone)
                pages += kept_pages(word);
        }
    return pages;
}
