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

static inline void node_locked(struct stook_cache *cache, struct node *node)
{
    node->took++;
    slab_counts.lists++;
    stat_add_lock(cache, STAT_list_lock_own,
                  (unsigned)((struct cache_node *)(void *)node - cache->nodes));
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

/* The lists' lengths are looked at without the lock: relaxed atomics. */
static inline void node_list_count(uint32_t *count, int change)
{
    __atomic_store_n(count, *count + (uint32_t)change, __ATOMIC_RELAXED);
}

static inline void node_add_partial(struct node *node, struct slab *slab)
{
    list_add(&node->partial, &slab->link);
    node_list_count(&node->nr_partial, 1);
}

static inline void node_add_freed(struct stook_cache *cache, struct node *node, struct slab *slab)
{
    node_add_partial(node, slab);
    stat_add(cache, STAT_free_add_partial, 1);
}

static inline void node_remove_partial(struct node *node, struct slab *slab)
{
    list_remove(&slab->link);
    node_list_count(&node->nr_partial, -1);
}

static inline void node_add_empty(struct node *node, struct slab *slab)
{
    list_add(&node->empty, &slab->link);
    node_list_count(&node->nr_empty, 1);
}

static inline void node_remove_empty(struct node *node, struct slab *slab)
{
    list_remove(&slab->link);
    node_list_count(&node->nr_empty, -1);
}

/* Empty slabs of a node whose memory went offline are not kept: no allocation asks that node. */
static inline bool node_is_there(const struct stook_cache *cache, const struct node *node)
{
    return topology_has_memory(
        (unsigned)((const struct cache_node *)(const void *)node - cache->nodes));
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
        node_remove_partial(node, slab);
        stat_add(cache, STAT_free_remove_partial, 1);
    }
    if (nospin || (node->nr_empty < cache->min_partial && node_is_there(cache, node))) {
        node_add_empty(node, slab);
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
static inline struct slab *node_settle_lists(struct stook_cache *cache, struct node *node,
                                             struct slab *slab, uint64_t word, bool nospin)
    LOCK_NEEDS(node->lock);
static inline struct slab *node_settle_lists(struct stook_cache *cache, struct node *node,
                                             struct slab *slab, uint64_t word, bool nospin)
{
    struct slab *gone = NULL;

    if (slab_flags(word) & SLAB_PENDING)
        return NULL;
    if (slab_inuse(word) == 0)
        gone = node_retire(cache, node, slab, nospin);
    else if (slab_head(word) != SLAB_NONE && !list_linked(&slab->link))
        node_add_freed(cache, node, slab);
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

#endif
