/* SPDX-License-Identifier: MIT */
/*
 * node.h - the slabs of a cache on one node: taking objects from them, and bringing them back.
 */
#ifndef STOOK_SLAB_NODE_H
#define STOOK_SLAB_NODE_H

#include "slab/slab.h"

/*
 * Takes between min and max objects into the array, from partial slabs first, then from new ones.  Fewer than
 * min only when memory is short or, with `nospin`, a lock is held.  Returns how many; errno is ENOMEM below
 * min.
 */
uint32_t node_take(struct stook_cache *cache, unsigned node, void **objects, uint32_t min,
                   uint32_t max, bool nospin);

/*
 * As node_take(), for a CPU of `node`: the home's partial, empty and new slabs; where the home has no
 * memory left, the other nodes', nearest first.  Other nodes' partial slabs do not come before new ones:
 * objects near their CPU are worth more than full slabs far away.
 */
uint32_t node_take_near(struct stook_cache *cache, unsigned node, void **objects, uint32_t min,
                        uint32_t max, bool nospin);

/*
 * Returns objects of this cache, of any slabs and nodes, in any order; NULL entries are skipped.  The objects
 * of one slab become one detached freelist, published by one compare-and-swap.  Cannot fail: with `nospin`,
 * list work that needs a held lock is left to the thread's interrupted holder.
 */
void node_put(struct stook_cache *cache, void *const *objects, uint32_t n, bool nospin);

/*
 * The same of the first objects of the array, of *slabs slabs at most, from which those are subtracted; how many
 * entries, 1 at least.
 */
uint32_t node_put_some(struct stook_cache *cache, void *const *objects, uint32_t n, unsigned *slabs,
                       bool nospin);

/* Whether one more slab keeps to the cache's limit.  Each thread that makes one at the same time may be beyond it by one. */
bool node_may_grow(const struct stook_cache *cache);

/* Returns empty slabs to the arena; the result is their bytes. */
size_t node_shrink(struct stook_cache *cache, unsigned node);

/* Counts read without the lock; exact while no thread makes or returns slabs. */
struct node_counts {
    uint64_t slabs, objects, pages; /* now: the objects that they could hold */
    uint64_t peak_pages;            /* at most ever, all counted with the preferred order */
    uint64_t gone_pages;            /* given back so far */
};
void node_count(const struct stook_cache *cache, unsigned node, struct node_counts *counts);

/* Free objects of the slabs on the node's lists, under its lock. */
uint64_t node_count_free(struct stook_cache *cache, unsigned node);

void node_init(struct node *node);

/* HOOKS_DUE_LEFT: finishes the list work of this thread's deferred slabs, and of those that were left because
 * a fork had the lock, unless there is a fork now. */
void node_drain_deferred(void);
/*
 * Until no slab of the cache is pending, and no object of it is on its way out of a quarantine, whichever thread has
 * them (cache->pending).  A fork is waited for; other threads for as many turns as *turns, from which those taken are
 * subtracted.  False: something is pending still, or this thread interrupted the library.
 */
bool node_wait(struct stook_cache *cache, unsigned *turns);
/* Nothing of the cache is pending, and no other thread uses it: slabs that are marked so all the same were in hand of
 * threads that a fork did not copy.  Their list work. */
void node_adopt(struct stook_cache *cache);
/* A fork has dropped the node's lock: this thread finishes the list work of the parked slab. */
void node_fork_end(struct node *node);

#endif
