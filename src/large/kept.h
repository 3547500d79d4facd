/* SPDX-License-Identifier: MIT */
/*
 * kept.h - large objects are cut from the runs and spans that were freed last.
 *
 * A program that takes and frees one buffer again and again would find a free run, take it out of its block
 * and put it back, each time under the zone's lock.  Two short runs a CPU, one long run and one span a process stay
 * out of their blocks instead (page/arena_kept.h).  A smaller one is cut from the front of what is kept, and what is
 * freed joins what is kept in front of it or behind.  So a program whose buffers change in size keeps the memory of its
 * largest one, and no more.  Of a span that is too large to stay warm the blocks are kept without their pages.
 *
 * No lock: page/arena_kept.h.
 */
#ifndef STOOK_LARGE_KEPT_H
#define STOOK_LARGE_KEPT_H

#include "page/arena_kept.h"

enum { KEPT_SHORT = 32 /* pages of a run that is kept for a CPU; one for all if it is longer */ };

/* The row of a run; of spans it is KEPT_SPAN or KEPT_CLEAN.  cpu: any number. */
static inline unsigned kept_row(int cpu, size_t pages)
{
    return pages > KEPT_SHORT ? KEPT_LONG : (unsigned)cpu % KEPT_CPUS;
}

/* So many pages of a zone, from the front of a run or span that is long enough; or NULL. */
static inline void *kept_cut(unsigned row, unsigned zone, size_t pages)
{
    for (unsigned i = 0; i < arena_kept_runs(row); i++) {
        _Atomic uint64_t *run = &zone_kept_row[row].run[i];
        /* Pairs with the release of the thread that freed it: the run's zone is read before it is had. */
        uint64_t word = atomic_load_explicit(run, memory_order_acquire);
        size_t had = arena_kept_pages(row, word);
        if (had < pages || pagemap_zone(arena_kept_run(row, word)) != zone)
            continue;
        if (atomic_compare_exchange_strong_explicit(
                run, &word, had > pages ? word + pages * PAGE_SIZE - pages : 0,
                memory_order_acquire, memory_order_relaxed))
            return arena_kept_run(row, word);
    }
    return NULL;
}

/* False: there is no room for it. */
bool kept_put(unsigned row, void *run, size_t pages);
/* A span of so many pages may be kept from here on. */
void kept_limit(size_t pages);

#endif
