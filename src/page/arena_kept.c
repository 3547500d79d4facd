/* SPDX-License-Identifier: MIT */
/*
 * arena_kept.c - takes and puts runs that are kept, by compare-and-swap of their words.
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

/* Something may be kept: the thread that clears it looks at all rows. */
static _Atomic bool kept_any;

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
        /* Pairs with the release of the thread that freed it: the run's zone is read before it is had. */
        uint64_t word = atomic_load_explicit(&row->run[i], memory_order_acquire);
        size_t more = kept_pages(word) - pages; /* of fewer pages: a large number */
        if (word == 0 || more > pages / KEPT_NEAR || pagemap_zone(kept_run(word)) != zone)
            continue;
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
            /* Behind the run's own word: a thread that clears this sees the run, or it is set again. */
            if (!atomic_load_explicit(&kept_any, memory_order_seq_cst))
                atomic_store_explicit(&kept_any, true, memory_order_seq_cst);
            return true;
        }
    }
    return false;
}

size_t arena_kept_drop(void)
{
    size_t pages = 0;

    if (!atomic_load_explicit(&kept_any, memory_order_relaxed) ||
        !atomic_exchange_explicit(&kept_any, false, memory_order_seq_cst))
        return 0;
    for (unsigned i = 0; i <= KEPT_CPUS; i++)
        pages += kept_drop_row(&arena_kept_row[i]);
    return pages;
}

size_t arena_kept(unsigned zone)
{
    size_t pages = 0;

    for (unsigned i = 0; i <= KEPT_CPUS; i++)
        for (unsigned j = 0; j < KEPT_RUNS; j++) {
            uint64_t word = atomic_load_explicit(&arena_kept_row[i].run[j], memory_order_acquire);
            if (word != 0 && pagemap_zone(kept_run(word)) == zone)
                pages += kept_pages(word);
        }
    return pages;
}
