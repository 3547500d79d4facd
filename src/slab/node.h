/* SPDX-License-Identifier: MIT */
/*
 * node.h - the slabs of a cache on one node: taking objects from them, and bringing them back.
 */
#ifndef STOOK_SLAB_NODE_H
#define STOOK_SLAB_NODE_H

#include "slab/slab.h"

/*
 * Between min and max objects into the array, partial slabs first, then new ones; fewer than min
 * only when memory is short or, with `nospin`, a lock is held.  How many; errno ENOMEM below min.
 */
uint32_t node_take(struct stook_cache *cache, unsigned node, void **objects, uint32_t min,
                   uint32_t max, bool nospin);

/*
 * Objects of this cache, of any slabs and nodes, in any order, NULL entries skipped.  Those of one
 * slab become one detached freelist, published by one compare-and-swap.  Cannot fail: with
 * `nospin`, list work that would need a held lock is left to the thread's interrupted holder.
 */
void node_put(struct stook_cache *cache, void *const *objects, uint32_t n, bool nospin);

/* Gives empty slabs back; bytes. */
size_t node_shrink(struct stook_cache *cache, unsigned node);

/* A racy look without the lock; exact where nobody makes or gives back slabs. */
struct node_counts {
    uint64_t slabs, objects, pages; /* now: the objects that they could hold */
    uint64_t peak_pages;            /* at most ever, all counted with the preferred order */
    uint64_t gone_pages;            /* given back so far */
};
void node_count(const struct stook_cache *cache, unsigned node, struct node_counts *counts);

/* Objects in partial and empty slabs that are free. */
uint64_t node_count_free(struct stook_cache *cache, unsigned node);

/* Slabs on the node's lists and their objects, under its lock. */
struct node_lists {
    uint64_t partial, empty; /* slabs */
    uint64_t partial_inuse;  /* objects handed out of partial slabs */
    uint64_t free;           /* free objects of both */
};
void node_count_lists(struct stook_cache *cache, unsigned node, struct node_lists *lists);

void node_init(struct node *node);

/* hooks.settle_slabs: finishes the list work of this thread's deferred slabs. */
void node_settle_deferred(struct slab *unused);
/* The same of slabs that were left because a fork had the lock, unless there is a fork now. */
void node_settle_left(void);
/* For a call that finds slabs which other threads may be about to settle after a fork: it looks again, and once
 * more as long as this says true. */
bool node_wait_left(unsigned turn);
/* In a child of several threads: those that settled slabs are not there. */
void node_child(void);
/* A fork has dropped the node's lock: the slab that was parked is this thread's to settle. */
void node_fork_end(struct node *node);

#endif
