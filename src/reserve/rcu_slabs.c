/* SPDX-License-Identifier: MIT */
/*
 * rcu_slabs.c - empty slabs of type-stable caches, which return to the arena after a grace period: a reader that found
 * an object before may still read its memory.
 *
 * They wait on a stack, linked by their own links, and share one callback head.  One batch waits at a time.  Slabs that
 * become empty meanwhile are in the next batch.  So this needs no memory, and cannot fail.
 */
#include "base/cancel.h"
#include "base/placed.h"
#include "base/context.h"
#include "reserve/rcu.h"
#include "slab/slab.h"

#include <stook/rcu.h>

#include <errno.h>

static struct {
    _Atomic(struct slab *) came; /* the next batch, linked by link.next */
    struct slab *waiting;        /* the batch that waits; of the thread that set `busy` */
    _Atomic bool busy;           /* a batch waits for a grace period, or a thread is making one */
    struct stook_rcu_head head;
    _Atomic uint32_t of[STOOK_CACHES_MAX]; /* slabs that wait, by cache */
} rcu_slabs LARGE_BSS;

static struct slab *rcu_slabs_next(const struct slab *slab)
{
    return slab->link.next ? LIST_ENTRY(slab->link.next, struct slab, link) : NULL;
}

static void rcu_slabs_push(struct slab *slab)
{
    struct slab *next = atomic_load_explicit(&rcu_slabs.came, memory_order_relaxed);

    do
        slab->link.next = next ? &next->link : NULL;
    while (!atomic_compare_exchange_weak(&rcu_slabs.came, &next, slab));
}

static void rcu_slabs_done(struct stook_rcu_head *head);

void rcu_slabs_begin(void)
{
    int saved = errno, cancel = cancel_off();
    unsigned side = rcu_pass_begin();

    /* A thread that finds `busy` set has pushed its slab before, and the thread that clears it checks the stack after. */
    while (atomic_load(&rcu_slabs.came) && !atomic_exchange(&rcu_slabs.busy, true)) {
        rcu_slabs.waiting = atomic_exchange(&rcu_slabs.came, NULL);
        if (rcu_slabs.waiting) {
            rcu_ops.call(&rcu_slabs.head, rcu_slabs_done);
            break;
        }
        atomic_store(&rcu_slabs.busy, false);
    }
    rcu_pass_end(side);
    cancel_on(cancel);
    errno = saved;
}

static void rcu_slabs_done(struct stook_rcu_head *head)
{
    struct slab *slab = rcu_slabs.waiting;

    (void)head;
    rcu_slabs.waiting = NULL;
    context_enter();
    while (slab) {
        struct slab *next = rcu_slabs_next(slab);
        struct stook_cache *cache = slab_cache_of(slab_base(slab));
        uint32_t index = cache->index;
        slab->link.next = slab->link.prev = NULL;
        slab_release(cache, slab);
        /* The last access: a thread that destroys the cache waits for this. */
        atomic_fetch_sub_explicit(&rcu_slabs.of[index], 1, memory_order_release);
        slab = next;
    }
    context_leave();
    atomic_store(&rcu_slabs.busy, false);
    rcu_slabs_begin();
}

void rcu_slabs_defer(struct stook_cache *cache, struct slab *slab)
{
    atomic_fetch_add_explicit(&rcu_slabs.of[cache->index], 1, memory_order_relaxed);
    rcu_slabs_push(slab);
    /* If this call is nested, the interrupted thread begins the batch when it leaves the library. */
    if (!rcu_outside(rcu_slabs_begin))
        atomic_store_explicit(&context_self()->rcu, true, memory_order_relaxed);
}

unsigned rcu_slabs_waiting(const struct stook_cache *cache)
{
    return atomic_load_explicit(&rcu_slabs.of[cache->index], memory_order_acquire);
}
