/* SPDX-License-Identifier: MIT */
/*
 * edge.h - pages without access at the ends of some runs of large objects.
 *
 * Such a run lies between two of these pages, and when it is freed none of its own has access for a while.
 * These are the first EDGE_FIRST of a process, and one in EDGE_ONE_IN behind them, of the runs that are
 * taken from a block: those that are kept and handed out again cost nothing.
 *
 * At most EDGE_RUNS of them exist at a time, so that mappings stay few.  No lock: the object's owner calls,
 * and words that threads share are changed by atomic instructions.
 */
#ifndef STOOK_LARGE_EDGE_H
#define STOOK_LARGE_EDGE_H

#include <stdbool.h>
#include <stddef.h>

enum { EDGE_FIRST = 8, EDGE_ONE_IN = 64, EDGE_RUNS = 16, EDGE_HELD = 4 };

/* A run with edges, or NULL: none is due, or the arena or the kernel has none. */
void *edge_alloc(unsigned zone, size_t pages, bool *zeroed);
/* It is freed: its memory goes back at once, its pages once EDGE_HELD others were freed. */
void edge_free(void *object, size_t pages);
/* The run is one like others from here on; false: the kernel refuses, and it is as it was. */
bool edge_drop(void *object, size_t pages);
/* Freed runs go back to the arena now; pages. */
size_t edge_trim(void);

#endif
