/* SPDX-License-Identifier: MIT */
/*
 * node_pending.c - keeps pending slabs, and does their list work.  A thread does that of its own slabs when it leaves
 * the library.  When a fork has ended, a thread does that of the slabs that were left because of the fork.
 */
#include "slab/node_steps.h"

#include "base/context.h"
#include "page/arena.h"

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

void node_park(struct node *node, struct slab *slab, bool many)
{
    if (!lock_has_fork(&node->lock)) {
        node_defer(slab);
        return;
    }
    for (unsigned i = 0; i < NODE_PARKED && slab; i++) {
        struct slab *none = NULL;
        if (atomic_compare_exchange_strong_explicit(&node->parked[i], &none, slab,
                                                    memory_order_acq_rel, memory_order_relaxed))
            slab = NULL;
    }
    if (slab && many)
        slab = atomic_exchange_explicit(&node->parked[slab->page % NODE_PARKED], slab,
                                        memory_order_acq_rel);
    if (slab)
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

/* ---- list work ------------------------------------------------------------------------------ */

/* Of one slab, which is pending no more.  False: a fork has the lock. */
static bool node_finish_pending(struct slab *slab)
{
    struct stook_cache *cache = slab_cache_of(slab_base(slab));
    struct node *node = node_of(cache, slab);
    uint64_t word, listed;

    if (!node_lock(cache, node, false))
        return false;
    word = atomic_load_explicit(&slab->state, memory_order_relaxed);
    /* Acquire: pairs with the pushes made while it was pending. */
    do
        listed = slab_word(slab_head(word), slab_inuse(word), slab_seq(word) + 1,
                           slab_flags(word) & ~(uint32_t)SLAB_PENDING);
    while (!node_swap(cache, slab, &word, listed));
    node_drop(cache, node, node_update_lists(cache, node, slab, listed, false));
    return true;
}

static _Atomic uint32_t node_left; /* page + 1 of the first slab */

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

static void node_finish_chain(struct slab *slab)
{
    while (slab) {
        struct slab *next =
            node_slab_at(slab->deferred); /* the slab may be gone after its list work */
        struct stook_cache *cache = slab_cache_of(slab_base(slab));
        if (!node_finish_pending(slab))
            node_leave(slab);
        else /* Release: the last access to the cache, which may be destroyed from here on. */
            atomic_fetch_sub_explicit(&cache->pending, 1, memory_order_release);
        slab = next;
    }
}

/* Pairs with the end of a fork: the fork finds the slabs that were left, or this thread sees that it ended. */
static void node_drain_left(void)
{
    while (atomic_load_explicit(&node_left, memory_order_acquire) && !lock_forked())
        node_finish_chain(
            node_slab_at(atomic_exchange_explicit(&node_left, 0, memory_order_acq_rel)));
}

void node_drain_deferred(void)
{
    struct context *context = context_self();

    node_finish_chain(atomic_exchange_explicit(&context->deferred, NULL, memory_order_relaxed));
    node_drain_left();
}

__attribute__((cold)) bool node_wait(struct stook_cache *cache, unsigned *turns)
{
    for (unsigned turn = 0; atomic_load_explicit(&cache->pending, memory_order_acquire) > 0;
         turn++) {
        bool forked = lock_forked();
        if (context_self()->depth > 1 || (*turns == 0 && !forked))
            return false;
        *turns -= !forked;
        node_drain_deferred();
        if (atomic_load_explicit(&cache->pending, memory_order_acquire) > 0)
            lock_pause(turn);
    }
    return true;
}

__attribute__((cold)) void node_adopt(struct stook_cache *cache)
{
    for (size_t page = 0; (page = slab_search(cache, page)) < SIZE_MAX; page++) {
        struct slab *slab = node_slab_at((uint32_t)page + 1);
        uint64_t word = atomic_load_explicit(&slab->state, memory_order_relaxed);
        if (slab->page == page && (slab_flags(word) & SLAB_PENDING))
            for (unsigned turn = 0; !node_finish_pending(slab); turn++)
                lock_pause(turn); /* for a fork */
    }
}
