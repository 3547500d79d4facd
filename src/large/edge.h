/* SPDX-License-Identifier: MIT */
/*
 * edge.h - pages without access at the ends of some large objects.
 *
 *   a run    lies between two such pages, and when it is freed none of its pages has access for a while;
 *            these are the first EDGE_FIRST of a process that are taken from a block, fewer if they have
 *            EDGE_PAGES and more, since their pages go back; and behind them one for EDGE_ONE_IN that had no
 *            resident page
 *   a span   ends where the object's last page does, if the rest of its last block has a page: each that
 *            has no resident page
 *
 * So the calls are little beside the page faults, and memory that is handed out again costs nothing.
 *
 * At most EDGE_RUNS and EDGE_SPANS of them exist at a time, so that mappings stay few.  No lock: the
 * object's owner calls, and words that threads share are changed by atomic instructions.
 */
#ifndef STOOK_LARGE_EDGE_H
#define STOOK_LARGE_EDGE_H

#include <stdbool.h>
#include <stddef.h>

enum {
    EDGE_FIRST = 8,
    EDGE_PAGES = 64,
    EDGE_ONE_IN = 64,
    EDGE_RUNS = 16,
    EDGE_HELD = 4,
    EDGE_SPANS = 24
};

/* A run with edges, or NULL: none is due, or the arena or the kernel has none. */
void *edge_alloc(unsigned zone, size_t pages, bool *zeroed);
/* A run without a resident page has none. */
void edge_passed(void);
/* It is freed: its memory goes back at once, its pages once EDGE_HELD others were freed. */
void edge_free(void *object, size_t pages);
/* The run is one like others from here on; false: the kernel refuses, and it is as it was. */
bool edge_drop(void *object, size_t pages);
/* Freed runs go back to the arena now; pages. */
size_t edge_trim(void);

/* May forbid access behind the first `pages` pages of a span without a resident page, if that leaves some. */
void edge_span(void *object, size_t blocks, size_t pages);
/* Pages of a span that have access: all of its blocks', or fewer. */
size_t edge_span_pages(const void *object, size_t blocks);
/* Allows access to the whole span, whose size stays what it was until edge_span_end(); false: the kernel refuses. */
bool edge_span_open(void *object, size_t blocks);
/* Undoes that. */
void edge_span_close(void *object, size_t blocks);
/* The span has no edge any more. */
void edge_span_end(const void *object);

#endif
