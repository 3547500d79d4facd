/* SPDX-License-Identifier: MIT */
/*
 * node_pending.h - slabs whose list work waits, since the node's lock could not be had.
 *
 * Such a slab is marked PENDING, by the thread that could not have the lock, and belongs to one place:
 *
 *   deferred   a list of the thread's own: it settles them when it leaves the library (base/context.h)
 *   left       the process's list: a fork had the lock even then.  The fork settles them after its end,
 *              or the thread that finds that there is no fork any more
 *   parked     of a node whose lock a fork has: a few slabs, from which threads take objects.  A thread
 *              takes one of them out, then objects from it, and parks it again
 *
 * Objects are freed to a pending slab as to any other, and are there for the next thread that needs one.
 * Wherever the slab is, cache->pending counts it until its list work is done: node_wait().
 * A forked child finds on its lists what was on them at that moment; a slab that another thread had in
 * hand then stays pending there, uncounted, until its cache is destroyed (node_adopt()).
 */
#ifndef STOOK_SLAB_NODE_PENDING_H
#define STOOK_SLAB_NODE_PENDING_H

#include "slab/slab.h"

/* Onto the thread's list. */
void node_defer(struct slab *slab);

/* Parks the slab, or defers it, where no fork has the lock any more.  If there is no place left, one with
 * `many` free objects takes another's. */
void node_park(struct node *node, struct slab *slab, bool many);
/* A parked slab, now this thread's alone; or NULL. */
struct slab *node_unpark(struct node *node, unsigned i);

/* The caller has just marked the slab as pending: it is counted before the call that frees to it returns. */
static inline void node_pend(struct stook_cache *cache, struct node *node, struct slab *slab,
                             bool many)
{
    atomic_fetch_add_explicit(&cache->pending, 1, memory_order_relaxed);
    node_park(node, slab, many);
}

#endif
