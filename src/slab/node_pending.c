/* SPDX-License-Identifier: MIT */
#include "slab/node_pending.h"

#include "base/context.h"
#include "slab/node.h"

void node_defer(struct slab *slab)
{
    struct context *context = context_self();
    struct slab *next = atomic_load_explicit(&context->deferred, memory_order_relaxed);

    /* Handlers nest, they do not run side by side: an exchange that fails is tried again. */
    do {
        slab->deferred = next ? next->page + 1 : 0;
    } while (!atomic_compare_exchange_weak_explicit(&context->deferred, &next, slab,
                                                    memory_order_relaxed, memory_order_relaxed));
}

struct slab *node_unpark(struct node *node, unsigned i)
{
    return atomic_exchange_explicit(&node->parked[i], NULL, memory_order_acq_rel);
}

static bool node_park_at(struct node *node, struct slab *slab, unsigned i)
{
    struct slab *none = NULL;

    return atomic_compare_exchange_strong_explicit(&node->parked[i], &none, slab,
                                                   memory_order_acq_rel, memory_order_relaxed);
}

void node_park(struct node *node, struct slab *slab, bool many)
{
    unsigned i = 0;

    if (!lock_has_fork(&node->lock)) {
        node_defer(slab);
        return;
    }
    while (i < NODE_PARKED && !node_park_at(node, slab, i))
        i++;
    if (i == NODE_PARKED && many)
        slab = atomic_exchange_explicit(&node->parked[slab->page % NODE_PARKED], slab,
                                        memory_order_acq_rel);
    if (i == NODE_PARKED && slab)
        node_defer(slab);
    /* The fork unparks after it dropped the lock: it finds the slab, or this thread sees that. */
    if (!lock_has_fork(&node->lock))
        node_fork_end(node);
}

void node_fork_end(struct node *node)
{
    for (unsigned i = 0; i < NODE_PARKED; i++) {
        struct slab *slab = atomic_load_explicit(&node->parked[i], memory_order_relaxed)
                                ? node_unpark(node, i)
                                : NULL;
        if (slab)
            node_defer(slab);
    }
}
