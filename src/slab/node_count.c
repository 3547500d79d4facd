/* SPDX-License-Identifier: MIT */
/*
 * node_count.c - counts from a walk over a node's lists, for reports.  Their acquisitions of the lock are not
 * counted.
 */
#include "slab/node.h"

void node_count_lists(struct stook_cache *cache, unsigned node_id, struct node_lists *lists)
{
    struct node *node = &cache->nodes[node_id].node;

    *lists = (struct node_lists){0};
    lock_take(&node->lock, LOCK_NODE);
    for (struct list *l = node->partial.next; l != &node->partial; l = l->next) {
        struct slab *slab = LIST_ENTRY(l, struct slab, link);
        uint64_t word = atomic_load_explicit(&slab->state, memory_order_relaxed);
        lists->partial++;
        lists->partial_inuse += slab_inuse(word);
        lists->free += slab_objects(cache, word) - slab_inuse(word);
    }
    for (struct list *l = node->empty.next; l != &node->empty; l = l->next) {
        struct slab *slab = LIST_ENTRY(l, struct slab, link);
        lists->empty++;
        lists->free +=
            slab_objects(cache, atomic_load_explicit(&slab->state, memory_order_relaxed));
    }
    lock_drop(&node->lock, LOCK_NODE);
}

uint64_t node_count_free(struct stook_cache *cache, unsigned node)
{
    struct node_lists lists;

    node_count_lists(cache, node, &lists);
    return lists.free;
}

void node_count(const struct stook_cache *cache, unsigned node_id, struct node_counts *counts)
{
    const struct node *node = &cache->nodes[node_id].node;
    const struct layout *l = &cache->layout;
    uint64_t gone = __atomic_load_n(&node->gone, __ATOMIC_RELAXED);
    uint64_t gone_min = __atomic_load_n(&node->gone_min, __ATOMIC_RELAXED);
    uint64_t min = __atomic_load_n(&node->made_min, __ATOMIC_RELAXED) - gone_min, full;

    counts->slabs = __atomic_load_n(&node->made, __ATOMIC_RELAXED) - gone;
    full = counts->slabs > min ? counts->slabs - min : 0;
    counts->objects = full * l->objects + min * l->min_objects;
    counts->pages = (full << l->order) + (min << l->min_order);
    counts->gone_pages = ((gone - gone_min) << l->order) + (gone_min << l->min_order);
    counts->peak_pages = __atomic_load_n(&node->peak, __ATOMIC_RELAXED) << l->order;
}
