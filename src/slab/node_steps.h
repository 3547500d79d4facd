/* SPDX-License-Identifier: MIT */
/*
 * node_steps.h - common steps of taking objects from slabs (node.c) and of bringing them back (node_put.c): a
 * node's lock and lists, and changes of a slab's word.  Other files include it for repairs alone (debug/slabs.c).
 */
#ifndef STOOK_SLAB_NODE_STEPS_H
#define STOOK_SLAB_NODE_STEPS_H

#include "slab/node.h"

#include "os/topology.h"
#include "slab/stat.h"
#include "slab/wrong.h"

static inline struct node *node_of(struct stook_cache *cache, const struct slab *slab)
{
    return &cache->nodes[slab_node(slab)].node;
}

static inline unsigned node_number(const struct stook_cache *cache, const struct node *node)
{
    return (unsigned)((const struct cache_node *)(const void *)node - cache->nodes);
}

static inline void node_locked(struct stook_cache *cache, struct node *node)
{
    node->took++;
    slab_counts.lists++;
    stat_add_lock(cache, STAT_list_lock_own, node_number(cache, node));
}

static inline bool node_lock(struct stook_cache *cache, struct node *node, bool nospin)
    LOCK_TRIES(node->lock);
static inline bool node_lock(struct stook_cache *cache, struct node *node, bool nospin)
{
    if (!lock_enter(&node->lock, LOCK_NODE, nospin)) {
        stat_add(cache, STAT_lock_busy, 1);
        return false;
    }
    node_locked(cache, node);
    return true;
}

/* A call has to come down to slabs. */
static inline void node_touch(const struct stook_cache *cache)
{
    slab_counts.touches += !(cache->flags & CACHE_INTERNAL);
}

/* ---- lists, under the lock ------------------------------------------------------------------ */

/* The lists' lengths are read without the lock: relaxed atomics. */
static inline void node_add(struct list *list, uint32_t *length, struct slab *slab)
{
    list_add(list, &slab->link);
    __atomic_store_n(length, *length + 1, __ATOMIC_RELAXED);
}

static inline void node_remove(uint32_t *length, struct slab *slab)
{
    list_remove(&slab->link);
    __atomic_store_n(length, *length - 1, __ATOMIC_RELAXED);
}

/*
 * The slab has just become empty, or was pending and is empty: takes it off the partial list.  It goes onto the
 * empty list while there are few, or if the caller cannot take the arena's lock.  Otherwise the caller gets
 * it, and returns it to the arena after it has dropped the lock.
 */
static inline struct slab *node_retire(struct stook_cache *cache, struct node *node,
                                       struct slab *slab, bool nospin)
{
    if (list_linked(&slab->link)) {
        node_remove(&node->nr_partial, slab);
        stat_add(cache, STAT_free_remove_partial, 1);
    }
    /* No allocation asks a node whose memory went offline. */
    if (nospin ||
        (node->nr_empty < cache->min_partial && topology_has_memory(node_number(cache, node)))) {
        node_add(&node->empty, &node->nr_empty, slab);
        return NULL;
    }
    return slab;
}

static inline void node_forget(struct node *node, const struct slab *slab)
{
    uint64_t word = atomic_load_explicit(&slab->state, memory_order_relaxed);

    /* Stored whole, for threads that count without the lock. */
    __atomic_store_n(&node->gone, node->gone + 1, __ATOMIC_RELAXED);
    if (slab_flags(word) & SLAB_MIN)
        __atomic_store_n(&node->gone_min, node->gone_min + 1, __ATOMIC_RELAXED);
}

/* Changes the word, or reads it anew.  Release: the links, and the user's stores to the objects, come before
 * any thread that takes the objects. */
static inline bool node_swap(struct stook_cache *cache, struct slab *slab, uint64_t *word,
                             uint64_t changed)
{
    if (!atomic_compare_exchange_weak_explicit(&slab->state, word, changed, memory_order_acq_rel,
                                               memory_order_acquire)) {
        stat_add(cache, STAT_cmpxchg_double_fail, 1);
        return false;
    }
    slab_counts.swaps++;
    return true;
}

static inline uint64_t node_pushed(struct stook_cache *cache, struct slab *slab, uint64_t word,
                                   uint32_t head, uint32_t count)
{
    if (__builtin_expect(slab_inuse(word) < count, 0))
        wrong_count(cache, slab, head, slab_inuse(word), count);
    return slab_word(head, slab_inuse(word) - count, slab_seq(word) + 1, slab_flags(word));
}

/* The word of a slab whose whole freelist is taken: all its objects are out. */
static inline uint64_t node_emptied(const struct stook_cache *cache, uint64_t word)
{
    return slab_word(SLAB_NONE, slab_objects(cache, word), slab_seq(word) + 1, slab_flags(word));
}

/* After a push under the lock: the lists.  The slab, if the caller has to give it back without the lock. */
static inline struct slab *node_update_lists(struct stook_cache *cache, struct node *node,
                                             struct slab *slab, uint64_t word, bool nospin)
    LOCK_NEEDS(node->lock);
static inline struct slab *node_update_lists(struct stook_cache *cache, struct node *node,
                                             struct slab *slab, uint64_t word, bool nospin)
{
    struct slab *gone = NULL;

    if (slab_flags(word) & SLAB_PENDING)
        return NULL;
    if (slab_inuse(word) == 0)
        gone = node_retire(cache, node, slab, nospin);
    else if (slab_head(word) != SLAB_NONE && !list_linked(&slab->link)) {
        node_add(&node->partial, &node->nr_partial, slab);
        stat_add(cache, STAT_free_add_partial, 1);
    }
    if (gone)
        node_forget(node, gone);
    return gone;
}

/* The lock goes, then the slab if there is one. */
static inline void node_drop(struct stook_cache *cache, struct node *node, struct slab *gone)
    LOCK_DROPS(node->lock);
static inline void node_drop(struct stook_cache *cache, struct node *node, struct slab *gone)
{
    lock_drop(&node->lock, LOCK_NODE);
    if (gone)
        slab_unmake(cache, gone);
}

/*
 * Returns a slab's surplus objects, linked from `head` on.  The slab is on no list, but a thread that frees to it
 * meanwhile may put it onto one.
 */
void node_put_rest(struct stook_cache *cache, struct slab *slab, uint32_t head, uint32_t count,
                   bool nospin);

/* ---- pending slabs (node_pending.c) ---------------------------------------------------------- */

/*
 * Slabs whose list work waits, since the node's lock could not be had.  Such a slab is marked PENDING, by the thread that could not have the lock, and belongs to one place:
 *
 *   deferred   a list of the thread's own: it does their list work when it leaves the library (base/context.h)
 *   left       the process's list: a fork had the lock even then.  The fork does it after its end,
 *              or the thread that finds that there is no fork any more
 *   parked     of a node whose lock a fork has: a few slabs, from which threads take objects.  A thread
 *              takes one of them out, then objects from it, and parks it again
 *
 * Objects are freed to a pending slab as to any other, and are there for the next thread that needs one.
 * Wherever the slab is, cache->pending counts it until its list work is done: node_wait().
 * A forked child finds on its lists what was on them at that moment; a slab that another thread had in
 * hand then stays pending there, uncounted, until its cache is destroyed (node_adopt()).
 */
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
