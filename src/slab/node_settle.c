/* SPDX-License-Identifier: MIT */
/*
 * node_settle.c - does the list work of pending slabs.  A thread does that of its own slabs when it leaves the
 * library.  When a fork has ended, a thread does that of the slabs that were left because of the fork.
 */
#include "slab/node_pending.h"

#include "base/context.h"
#include "page/arena.h"
#include "slab/node.h"

enum { NODE_LEFT_TURNS = 1024 }; /* some 100 ms */

static _Atomic uint32_t node_left;     /* page + 1 of the first slab */
static _Atomic uint32_t node_settling; /* threads at work on slabs of that list */

/* Threads push one slab at a time, and take all at once: no slab comes back between two reads.  The first slab
 * is not read: its work may be done, and the slab gone, by now. */
static void node_leave(struct slab *slab)
{
    uint32_t next = atomic_load_explicit(&node_left, memory_order_relaxed);

    do
        slab->deferred = next;
    while (!atomic_compare_exchange_weak_explicit(&node_left, &next, slab->page + 1,
                                                  memory_order_acq_rel, memory_order_relaxed));
}

/* The slab at a page, by its number + 1; 0: none. */
static struct slab *node_slab_at(uint32_t page)
{
    char *base;

    if (page == 0)
        return NULL;
    base = (char *)pagemap.base + ((size_t)(page - 1) << PAGE_SHIFT);
    return arena_meta(base, pagemap_granule(*pagemap_at(base)));
}

static void node_settle_list(struct slab *slab)
{
    while (slab) {
        struct slab *next =
            node_slab_at(slab->deferred); /* the slab may be gone after its list work */
        if (!node_settle(slab))
            node_leave(slab);
        slab = next;
    }
}

/* Pairs with the end of a fork: the fork finds the slabs that were left, or this thread sees that it ended. */
void node_settle_left(void)
{
    while (atomic_load_explicit(&node_left, memory_order_acquire) && !lock_forked()) {
        atomic_fetch_add_explicit(&node_settling, 1, memory_order_seq_cst);
        node_settle_list(
            node_slab_at(atomic_exchange_explicit(&node_left, 0, memory_order_seq_cst)));
        atomic_fetch_sub_explicit(&node_settling, 1, memory_order_seq_cst);
    }
}

/* A slab is counted in node_settling before it leaves the list, so the list is read first. */
bool node_wait_left(unsigned turn)
{
    bool busy = atomic_load_explicit(&node_left, memory_order_seq_cst) != 0 ||
                atomic_load_explicit(&node_settling, memory_order_seq_cst) != 0;

    if (busy)
        lock_pause(turn);
    node_settle_left();
    return busy && turn < NODE_LEFT_TURNS;
}

void node_child(void)
{
    atomic_store_explicit(&node_settling, 0, memory_order_relaxed);
}

void node_settle_deferred(struct slab *unused)
{
    struct context *context = context_self();

    (void)unused;
    node_settle_list(atomic_exchange_explicit(&context->deferred, NULL, memory_order_relaxed));
    node_settle_left();
}
