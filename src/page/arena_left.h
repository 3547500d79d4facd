/* SPDX-License-Identifier: MIT */
/*
 * arena_left.h - runs and spans that cannot be given back now, since a fork has the zone's lock.
 *
 * They go onto a list of the process by one compare-and-swap, through their own first bytes.  The fork
 * gives them back after its end, parent and child each their own; or the thread that put one there and
 * finds that there is no fork any more.
 */
#ifndef STOOK_PAGE_ARENA_LEFT_H
#define STOOK_PAGE_ARENA_LEFT_H

#include "page/arena.h"

/* False: a fork has the lock. */
bool arena_free_now(void *run, size_t pages, void *meta, size_t meta_bytes);

void arena_leave_span(void *span, size_t blocks);

#endif
