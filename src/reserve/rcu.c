/* SPDX-License-Identifier: MIT */
/*
 * rcu.c - stook_free_rcu(), stook_free_any_rcu(), stook_rcu_barrier() and the callbacks of the program's RCU.  rcu.h has
 * the path of an object.  rcu_full.c has the stack of full sheaves, rcu_single.c has objects without a sheaf.
 */
#include "reserve/rcu.h"

#include "base/grow.h"
#include "base/placed.h"
#include "charge/account.h"
#include "base/cancel.h"
#include "base/context.h"
#include "base/report.h"
#include "cache/alloc.h"
#include "cache/cache_list.h"
#include "kmalloc/private.h"
#include "observe/observe.h"
#include "base/init.h"
#include "os/topology.h"
#include "sheaf/barn.h"
#include "sheaf/slot_sections.h"
#include "slab/node.h"
#include "slab/stat.h"
#include "slab/wrong.h"

#include <stook/kmalloc.h>
#include <stook/rcu.h>

#include <errno.h>
#include <pthread.h>
#include <string.h>

enum {
    RCU_TURNS = 4,
    RCU_SLAB_ROUNDS = 4, /* grace periods that a drain waits for: one batch waits, one follows */
    RCU_LEAST = 3 * RCU_BATCH_WORDS, /* smaller sheaves get extra words for the batch */
};

static struct lock rcu_setting; /* of stook_rcu_set_ops() */
/*
 * True: a section puts objects into rcu sheaves, and a thread that takes another CPU's rcu sheaf needs a fence.
 * False if a tunable forbids to interrupt some CPU.  Constant once an RCU is set (hooks_rcu()).
 */
static bool rcu_sections;

/* By the cache's index: a slot of the cache may have an rcu sheaf.  It is no part of struct stook_cache, since most caches
 * defer nothing and never touch it. */
static _Atomic bool rcu_used[STOOK_CACHES_MAX] LARGE_BSS;
static _Atomic unsigned rcu_used_end; /* the highest that was ever set + 1 */

/* ---- to the RCU and back -------------------------------------------------------------------- */

/* Returns a sheaf to the barn with the cache's present capacity; if it cannot have that, frees its objects and itself. */
static void rcu_return(struct stook_cache *cache, unsigned node, struct sheaf *sheaf, bool nospin)
{
    uint32_t capacity = cache_capacity(cache);

    if (capacity > 0 && capacity <= sheaf_room(sheaf) && sheaf->size <= capacity) {
        sheaf->capacity = capacity;
        barn_return(cache, node, sheaf, nospin);
        barn_shed(cache, node, false, nospin);
        return;
    }
    sheaf_flush(cache, sheaf, nospin);
    sheaf_free(sheaf, nospin);
    stat_add(cache, STAT_sheaf_free, 1);
}

/*
 * The node whose barn a sheaf goes to: the one of all its objects, or else the one that it was filled on.  In the latter
 * case its objects of other homes are freed.
 */
static unsigned rcu_sort(struct stook_cache *cache, unsigned node, struct sheaf *sheaf, bool nospin)
{
    unsigned home = topology.home_of_node[node];
    uint32_t own = 0, n = sheaf->size;
    int owner;

    if (topology.memories < 2)
        return node;
    owner = sheaf_owner(sheaf);
    if (owner >= 0)
        return (unsigned)owner == home ? node : (unsigned)owner;
    for (uint32_t i = 0; i < n; i++)
        if (pagemap_node(sheaf->object[i]) == home) {
            void *object = sheaf->object[i];
            sheaf->object[i] = sheaf->object[own];
            sheaf->object[own++] = object;
        }
    sheaf->size = own;
    slot_free(cache, sheaf->object + own, n - own, nospin);
    return node;
}

/* Poisons objects of debug caches and fills those of hardened ones, since no reader has them any more. */
static void rcu_readers_gone(struct stook_cache *cache, void **objects, uint32_t n)
{
    if (cache->flags & (CACHE_DEBUG | CACHE_HARDENED))
        for (uint32_t i = 0; i < n; i++)
            observe_deferred(cache, objects[i]);
}

/* An object without a sheaf of its cache, or of whole pages (`cache` is NULL), whose readers are gone.  Inside the library,
 * without locks. */
static void rcu_free_one(struct stook_cache *cache, void *object, bool nospin)
{
    if (!cache) {
        context_leave();
        stook_free_any(object);
        context_enter();
        return;
    }
    rcu_readers_gone(cache, &object, 1);
    slot_free(cache, &object, 1, nospin);
}

/* The callback: the grace period is over. */
static void rcu_done(struct stook_rcu_head *head)
{
    struct sheaf *sheaf = rcu_batch_sheaf(head);
    unsigned node = ((struct rcu_batch *)(void *)head)->node;
    int saved = errno;
    bool nested = context_enter();
    struct stook_cache *cache = slab_user_cache(sheaf->object[0]);

    if (node == RCU_BATCH_SINGLE) {
        rcu_free_one(cache, sheaf->object[0], nested);
        rcu_single_free(sheaf, nested);
    } else {
        rcu_readers_gone(cache, sheaf->object, sheaf->size);
        node = rcu_sort(cache, node, sheaf, nested);
        rcu_return(cache, node, sheaf, nested);
    }
    context_leave();
    errno = saved;
}

static __thread struct {
    bool submitting;    /* this thread is in ops.call */
    _Atomic bool again; /* a signal handler interrupted it there, and left a sheaf on the stack */
} rcu_submit_self __attribute__((tls_model("initial-exec")));

static struct rcu_batch *rcu_batch_of(struct sheaf *sheaf)
{
    return (struct rcu_batch *)(void *)&sheaf->object[sheaf->capacity];
}

/* Passes the stack's sheaves to ops.call.  Outside the library. */
static void rcu_submit(void)
{
    int saved = errno, cancel;

    if (rcu_submit_self.submitting) { /* a handler that interrupted the loop below */
        atomic_store_explicit(&rcu_submit_self.again, true, memory_order_relaxed);
        return;
    }
    cancel = cancel_off();
    do {
        struct sheaf *sheaf;
        unsigned side;
        atomic_store_explicit(&rcu_submit_self.again, false, memory_order_relaxed);
        rcu_submit_self.submitting = true;
        atomic_signal_fence(memory_order_seq_cst);
        side = rcu_pass_begin();
        sheaf = rcu_full_pop_all();
        while (sheaf) {
            struct sheaf *next = sheaf->next;
            sheaf->next = NULL;
            rcu_ops.call(&rcu_batch_of(sheaf)->head, rcu_done);
            sheaf = next;
        }
        rcu_pass_end(side);
        atomic_signal_fence(memory_order_seq_cst);
        rcu_submit_self.submitting = false;
        atomic_signal_fence(memory_order_seq_cst);
        rcu_slabs_begin();
    } while (atomic_load_explicit(&rcu_submit_self.again, memory_order_relaxed));
    cancel_on(cancel);
    errno = saved;
}

/* The same from inside the library.  If this call interrupted another one, that one does it when it leaves the library. */
static void rcu_submit_inside(void)
{
    if (!rcu_outside(rcu_submit))
        atomic_store_explicit(&context_self()->rcu, true, memory_order_relaxed);
}

/* HOOKS_RCU_FLUSH: passes the sheaves on that a signal handler left on the stack. */
static void rcu_flush_deferred(void)
{
    atomic_store_explicit(&context_self()->rcu, false, memory_order_relaxed);
    rcu_submit_inside();
}

/* ---- stook_free_rcu ------------------------------------------------------------------------- */

/* An empty sheaf for objects of the cache and the batch; NULL without memory. */
static struct sheaf *rcu_sheaf(struct stook_cache *cache, unsigned node, bool nospin)
{
    uint32_t capacity = cache_capacity(cache), most;
    struct sheaf *sheaf = NULL, *none = NULL;
    bool ours = capacity >= RCU_LEAST;

    if (!capacity)
        capacity = RCU_NOSHEAF;
    if (ours) {
        sheaf = barn_get_empty(cache, node, nospin);
        /* No memory: take a full sheaf of the barn and flush it. */
        if (!sheaf && (sheaf = barn_get_full(cache, node, &none, nospin)) != NULL)
            sheaf_flush(cache, sheaf, nospin);
        /* Of a capacity that the cache had before. */
        if (sheaf && sheaf->capacity < RCU_LEAST) {
            barn_put_empty(cache, node, sheaf, nospin);
            ours = false;
        }
    }
    if (!ours) {
        sheaf = sheaf_alloc(capacity, capacity + RCU_BATCH_WORDS, node, nospin);
        stat_add(cache, STAT_sheaf_alloc, sheaf != NULL);
    }
    if (!sheaf)
        return NULL;
    most = sheaf_room(sheaf) - RCU_BATCH_WORDS;
    rcu_batch_init(sheaf, capacity < most ? capacity : most, node);
    return sheaf;
}

/*
 * Puts an object into this CPU's rcu sheaf if the section could not: there is no sheaf, or this is its last
 * object.  A sheaf is fetched before the slot is closed to install it.  A full sheaf goes onto the stack before
 * the slot opens, so a drain finds it in one of both places.  *full: it is on the stack.
 */
static bool rcu_put(struct stook_cache *cache, void *object, bool nospin, bool *full)
{
    struct sheaf *fresh = NULL;
    unsigned node = 0;
    bool put = false;

    for (int turn = 0; turn < RCU_TURNS; turn++) {
        struct slot *slot;
        struct sheaf *main = slot_close(percpu_offset(cache->index), &slot, nospin);
        if (!main)
            break;
        struct sheaf *sheaf = slot->rcu;
        if (!sheaf && fresh) {
            sheaf = slot->rcu = fresh;
            fresh = NULL;
        }
        if (sheaf) {
            sheaf->object[sheaf->size++] = object;
            put = true;
            *full = sheaf->size == sheaf->capacity;
            if (*full) {
                slot->rcu = NULL;
                rcu_full_push(sheaf);
            }
        }
        slot_open(slot, main);
        if (put)
            break;
        node = percpu_node(percpu_cpu());
        fresh = rcu_sheaf(cache, node, nospin);
        if (!fresh)
            break;
    }
    if (fresh)
        rcu_return(cache, node, fresh, nospin);
    return put;
}

/*
 * Puts an object that has no slot, no sheaf or no cache (whole pages: NULL) onto the stack, in a sheaf of its own.  Without
 * memory it waits for a grace period, if the thread may.
 */
static void rcu_put_single(struct stook_cache *cache, void *object, bool nested)
{
    struct sheaf *sheaf = rcu_single_make(object, percpu_node(percpu_cpu()), nested);

    if (sheaf) {
        rcu_full_push(sheaf);
        return;
    }
    if (nested || !rcu_ops.reading || rcu_ops.reading() || !rcu_outside(rcu_ops.synchronize))
        report_fatal(
            "cache %s: no memory to defer the free of %p, and this thread cannot wait for readers",
            cache ? cache->name : "(large)", object);
    rcu_free_one(cache, object, false);
}

/* Leaves the library and passes the stack on, if it has a sheaf.  If this call is nested, the interrupted one does it. */
static void rcu_leave(bool nested, bool full)
{
    if (full && nested)
        atomic_store_explicit(&context_self()->rcu, true, memory_order_relaxed);
    context_leave();
    if (full && !nested)
        rcu_submit();
}

/* The first deferred free of a cache: from here on drains take its slots. */
static void rcu_use(uint32_t index)
{
    unsigned end = atomic_load_explicit(&rcu_used_end, memory_order_relaxed);

    while (end <= index &&
           !atomic_compare_exchange_weak_explicit(&rcu_used_end, &end, index + 1,
                                                  memory_order_relaxed, memory_order_relaxed))
        ;
    atomic_store_explicit(&rcu_used[index], true, memory_order_relaxed);
}

static __attribute__((noinline, cold)) void rcu_free_slow(struct stook_cache *cache, void *object)
{
    bool nested, full = false;

    if (!object)
        return;
    if (__builtin_expect(!hooks_rcu(), 0))
        report_fatal("cache %s: stook_free_rcu() before stook_rcu_set_ops(): no RCU is set",
                     cache->name);
    if (__builtin_expect(cache_hooks(cache) != 0, 0)) {
        observe_defer(cache, &object); /* while it waits for readers it is charged to no group */
        if (!object)
            return;
    } else if (!free_checks(cache, object)) {
        return;
    }
    nested = context_enter();
    if (__builtin_expect(!atomic_load_explicit(&rcu_used[cache->index], memory_order_relaxed), 0))
        rcu_use(cache->index);
    if (rcu_put(cache, object, nested, &full)) {
        stat_add(cache, STAT_free_rcu_sheaf, 1);
    } else {
        stat_add(cache, STAT_free_rcu_sheaf_fail, 1);
        rcu_put_single(cache, object, nested);
        full = true;
    }
    rcu_leave(nested, full);
}

/* NULL is on no page of the arena.  The section succeeds only if the slot has an rcu sheaf, so an RCU is set and the cache
 * is marked as used. */
__attribute__((aligned(64))) void stook_free_rcu(struct stook_cache *cache, void *object)
{
    if (__builtin_expect(pagemap_covers(object) && rcu_sections, 1) &&
        __builtin_expect(pagemap_cache(*pagemap_at(object)) == cache->index, 1) &&
        __builtin_expect(rseq_defer(cache->head.slots, cache->head.rseq_offset, SLOT_CLOSED,
                                    object) == RSEQ_DONE,
                         1)) {
        stat_add(cache, STAT_free_rcu_sheaf, 1);
        return;
    }
    rcu_free_slow(cache, object);
}

void stook_free_any_rcu(void *object)
{
    struct stook_cache *cache;
    bool nested;

    if ((uintptr_t)object <= (uintptr_t)STOOK_KMALLOC_NONE)
        return;
    cache = slab_user_cache(object);
    if (cache) {
        stook_free_rcu(cache, object);
        return;
    }
    if (stook_private_large_size(object) == 0) {
        stook_private_bad_pointer("stook_free_any_rcu", object);
        return;
    }
    if (!hooks_rcu())
        report_fatal("stook_free_any_rcu(%p) before stook_rcu_set_ops(): no RCU is set", object);
    nested = context_enter();
    rcu_put_single(NULL, object, nested);
    rcu_leave(nested, true);
}

/* ---- drains --------------------------------------------------------------------------------- */

/*
 * Moves the rcu sheaves of the slots of caches [index, end) onto the stack.  A section that found such a sheaf may still
 * commit to it, so the sheaf is not read or pushed before the CPU's fence.  One fence serves all caches.  `all`: waits for
 * closed slots; else it skips them.
 */
static void rcu_take_slots(unsigned index, unsigned end, bool all)
{
    for (unsigned cpu = 0; cpu < percpu.rows; cpu++) {
        struct sheaf *taken = NULL;
        unsigned side;
        if (!percpu_slot(cpu, 0))
            continue;
        side = rcu_pass_begin();
        for (unsigned i = index; i < end; i++) {
            struct slot *slot = percpu_slot(cpu, percpu_offset(i));
            struct sheaf *main = NULL, *sheaf;
            if (!atomic_load_explicit(&rcu_used[i], memory_order_relaxed))
                continue;
            for (unsigned turn = 0; !(main = slot_take(slot, false)) && all; turn++)
                lock_pause(turn);
            if (!main)
                continue;
            sheaf = slot->rcu;
            slot->rcu = NULL;
            slot_reopen(slot);
            if (sheaf) {
                sheaf->next = taken;
                taken = sheaf;
            }
        }
        if (taken && rcu_sections)
            rcu_fence(cpu);
        while (taken) {
            struct sheaf *next = taken->next;
            rcu_full_push(taken);
            taken = next;
        }
        rcu_pass_end(side);
    }
}

/* Waits until all objects are free that were in a slot before.  Inside the library, without locks. */
static void rcu_wait(void)
{
    rcu_pass_wait(); /* threads that took slots before have put their sheaves onto the stack … */
    rcu_submit_inside();
    rcu_pass_wait(); /* … and threads that took the stack before have called the RCU */
    if (!rcu_outside(rcu_ops.barrier))
        report_fatal(
            "a signal handler that interrupted the library cannot wait for deferred frees");
}

/* hooks_set.rcu */
static void rcu_called(enum hooks_rcu what, struct stook_cache *cache, struct slab *slab)
{
    bool used = cache && atomic_load_explicit(&rcu_used[cache->index], memory_order_relaxed);

    switch (what) {
    case HOOKS_RCU_FLUSH:
        rcu_flush_deferred();
        break;
    case HOOKS_RCU_SLAB:
        rcu_slabs_defer(cache, slab);
        break;
    case HOOKS_RCU_PUSH:
        rcu_take_slots(cache->index, cache->index + 1, false);
        if (used)
            rcu_submit_inside();
        break;
    case HOOKS_RCU_WAIT:
        rcu_take_slots(cache->index, cache->index + 1, true);
        if (used)
            rcu_wait();
        break;
    case HOOKS_RCU_SLABS:
        for (int i = 0; i < RCU_SLAB_ROUNDS && rcu_slabs_waiting(cache) > 0; i++) {
            rcu_pass_wait();
            (void)rcu_outside(rcu_ops.barrier);
        }
        atomic_store_explicit(&rcu_used[cache->index], false, memory_order_relaxed);
        break;
    }
}

void stook_rcu_barrier(void)
{
    if (!hooks_rcu())
        return;
    context_enter();
    rcu_take_slots(1, atomic_load_explicit(&rcu_used_end, memory_order_relaxed), true);
    rcu_wait();
    context_leave();
}

/* ---- setting it ----------------------------------------------------------------------------- */

static bool rcu_same(const struct stook_rcu_ops *ops)
{
    return ops->call == rcu_ops.call && ops->barrier == rcu_ops.barrier &&
           ops->synchronize == rcu_ops.synchronize && ops->reading == rcu_ops.reading;
}

/* 0 or an error number; under the lock. */
static int rcu_set(const struct stook_rcu_ops *ops)
{
    if (hooks_rcu())
        return rcu_same(ops) ? 0 : EBUSY;
    if (pthread_atfork(NULL, NULL, rcu_pass_child) != 0)
        return ENOMEM;
    rcu_ops = *ops;
    rcu_sections = percpu.rseq && !percpu.isolated;
    /* Release: a thread that sees the hook sees what it needs. */
    __atomic_store_n(&hooks_set.rcu, rcu_called, __ATOMIC_RELEASE);
    /* An RCU stays set, so the object that has ops.call must stay loaded: for example a plug-in with libstook-urcu.a. */
    stook_inline_layout_3(STOOK_INLINE_LAYOUT, (const void *)(uintptr_t)ops->call);
    return 0;
}

int stook_rcu_set_ops(const struct stook_rcu_ops *given)
{
    struct stook_rcu_ops ops = {0};
    int error;

    if (!given || !grow_read(&ops, sizeof(ops), given) || !ops.call || !ops.barrier ||
        !ops.synchronize) {
        errno = EINVAL;
        return -1;
    }
    init_once();
    if (!lock_word_try(&rcu_setting))
        (void)lock_wait(&rcu_setting, true);
    error = rcu_set(&ops);
    lock_word_drop(&rcu_setting);
    if (error)
        errno = error;
    return error ? -1 : 0;
}
