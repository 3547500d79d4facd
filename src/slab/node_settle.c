/* SPDX-License-Identifier: MIT */
/*
 * node_settle.c - does the list work of pending slabs.  A thread does that of its own slabs when it leaves the
 * library.  When a fork has ended, a thread does that of the slabs that were left because of the fork.
 */
#include "slab/node_pending.h"

#include "base/context.h"
#include "page/arena.h"
#include "slab/node.h"

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

static void node_settle_list(struct slab *slab)
{
    while (slab) {
        struct slab *next =
            node_slab_at(slab->deferred); /* the slab may be gone after its list work */
        struct stook_cache *cache = slab_cache_of(slab_base(slab));
        if (!node_settle(slab))
            node_leave(slab);
        else /* Release: the last access to the cache, which may be destroyed from here on. */
            atomic_fetch_sub_explicit(&cache->pending, 1, memory_order_release);
        slab = next;
    }
}

/* Pairs with the end of a fork: the fork finds the slabs that were left, or this thread sees that it ended. */
static void node_settle_left(void)
{
    while (atomic_load_explicit(&node_left, memory_order_acquire) && !lock_forked())
        node_settle_list(
            node_slab_at(atomic_exchange_explicit(&node_left, 0, memory_order_acq_rel)));
}

void node_settle_deferred(struct slab *unused)
{
    struct context *context = context_self();

    (void)unused;
    node_settle_list(atomic_exchange_explicit(&context->deferred, NULL, memory_order_relaxed));
    node_settle_left();
}

__attribute__((cold)) bool node_wait(struct stook_cache *cache, unsigned *turns)
{
    for (unsigned turn = 0; atomic_load_explicit(&cache->pending, memory_order_acquire) > 0;
         turn++) {
        bool forked = lock_forked();
        if (context_self()->depth > 1 || (*turns == 0 && !forked))
            return false;
        *turns -= !forked;
        node_settle_deferred(NULL);
        if (atomic_load_explicit(&cache->pending, memory_order_acquire) > 0)
            lock_pause(turn);
    }
    return true;
}

__attribute__((cold)) void node_adopt(struct stook_cache *cache)
{
    size_t page = 0, end = slab_pages_end();

    for (; (page = slab_search(cache, page, end)) < end; page++) {
        struct slab *slab = node_slab_at((uint32_t)page + 1);
        uint64_t word = atomic_load_explicit(&slab->state, memory_order_relaxed);
        if (slab->page == page && (slab_flags(word) & SLAB_PENDING))
            for (unsigned turn = 0; !node_settle(slab); turn++)
                lock_pause(turn); /* for a fork */
    }
}
