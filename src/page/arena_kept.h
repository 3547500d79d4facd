/* SPDX-License-Identifier: MIT */
/*
 * arena_kept.h - the runs that were freed last, kept as they are for the next call that asks for as many pages.
 *
 * A program that takes and frees one buffer again and again would find a free run, take it out of its block
 * and put it back, each time under the zone's lock.  Two short runs a CPU and one long run a process stay
 * out of their blocks instead.  They are warm memory: statistics say so, and arena_trim() gives them back.
 * A call that finds none that fits gives back what its CPU keeps first, and a new slab or span what all keep:
 * so pages that are kept make no program take others.
 *
 * No lock, also beside a fork: a run and its length are one word, and the thread that changes the word to 0 has the run.
 */
#ifndef STOOK_PAGE_ARENA_KEPT_H
#define STOOK_PAGE_ARENA_KEPT_H

#include "page/arena.h"

#include <stdatomic.h>

enum {
    KEPT_CPUS = 64, /* rows; CPUs beyond share them */
    KEPT_RUNS = 2,  /* a CPU */
    KEPT_SHORT = 32 /* pages of a run that is kept for a CPU; one for all if it is longer */
};

struct arena_kept {
    _Atomic uint64_t run[KEPT_RUNS]; /* its address, and below that its pages; 0: none */
} __attribute__((aligned(64)));

/* A row a CPU, and behind them what is kept for all. */
extern struct arena_kept arena_kept_row[KEPT_CPUS + 1] __attribute__((visibility("hidden")));

/* A run of a zone with so many pages, or a sixteenth more: *had; NULL: none fits.  cpu: any number.  In a context
 * that may not spin nothing goes back. */
void *arena_kept_take(int cpu, unsigned zone, size_t pages, bool nospin, size_t *had);
/* False: there is no place for it. */
bool arena_kept_put(int cpu, void *run, size_t pages);
/* Gives back all of them; pages. */
size_t arena_kept_drop(void);
/* Pages of a zone that are kept. */
size_t arena_kept(unsigned zone);

#endif
