/* SPDX-License-Identifier: MIT */
/*
 * slot_steps.h - common steps of the slow halves of alloc (slot_alloc.c) and of free (slot_free.c, remote.c).
 * Drains and counts (slot_drain.c) take slot_real() from it; no other file includes it.
 */
#ifndef STOOK_SHEAF_SLOT_STEPS_H
#define STOOK_SHEAF_SLOT_STEPS_H

#include "sheaf/slot.h"
#include "slab/slab.h"
#include "slab/stat.h"

enum { SLOT_TURNS = 4 }; /* of a call: its bound, since others may empty or fill what it found */

/* A call of slot_alloc() or slot_free(), as its steps know it. */
struct slot_call {
    struct stook_cache *cache;
    uintptr_t offset; /* of the slot */
    unsigned node;    /* of this CPU */
    bool frees, nospin;
    bool decline;     /* the barns take no sheaf, so this CPU keeps one, not two */
    bool bulk;        /* a free of several objects: it flushes whole sheaves */
    uint16_t refused; /* of the slot, when a sheaf comes into it (slot_install()) */
    uint64_t touches; /* of slabs, when the thread last said how often it came down to them */
};

static inline struct slot_call slot_begin(struct stook_cache *cache, bool frees, bool nospin)
{
    return (struct slot_call){.cache = cache,
                              .offset = percpu_offset(cache->index),
                              .node = percpu_node(percpu_cpu()),
                              .frees = frees,
                              .nospin = nospin,
                              .touches = slab_counts.touches};
}

static inline struct sheaf *slot_real(struct sheaf *main)
{
    return main == SHEAF_NONE ? NULL : main;
}

/* Main and spare of a closed slot change places, and it is opened: closing it is what larger sheaves would spare. */
static inline void slot_swap(struct stook_cache *cache, struct slot *slot, struct sheaf *main)
{
    struct sheaf *spare = slot->spare;

    slot->spare = slot_real(main);
    if (++slot->swaps == 0 && (cache->flags & STOOK_CACHE_ADAPTIVE))
        __atomic_store_n(&cache->policy.verdict, BARN_WANTS_LONGER, __ATOMIC_RELAXED);
    slot_open(slot, spare);
    stat_add(cache, STAT_sheaf_swap, 1);
}

/*
 * A sheaf of this call becomes main if main is still as the call found it: empty for an allocation, full for a free.
 * The old main, or the sheaf if it is not needed, becomes the spare, if there is none and it is full or empty.  Else it
 * goes to the barn.
 */
void slot_install(const struct slot_call *call, struct sheaf *sheaf);

/* remote.c.  A sheaf of one other node's objects goes to its owner's barn, or is flushed: an empty one, or NULL. */
struct sheaf *remote_send(const struct slot_call *call, struct sheaf *sheaf);
/* The sheaf, without its objects of other nodes: they are in the slot's remote sheaves. */
struct sheaf *remote_sort(const struct slot_call *call, struct sheaf *sheaf);

/* n objects of the call were moved: fast, or slow if slabs were touched for them. */
static inline void slot_tally(struct slot_call *call, uint32_t n)
{
    enum stat_event fast = call->frees ? STAT_free_fastpath : STAT_alloc_fastpath;
    enum stat_event slow = call->frees ? STAT_free_slowpath : STAT_alloc_slowpath;

    stat_add(call->cache, slab_counts.touches == call->touches ? fast : slow, n);
    call->touches = slab_counts.touches;
}

/* Whether the caller has tried no section on this slot: there are none, or the fast path is closed. */
static inline bool slot_untried(const struct stook_cache *cache)
{
    return cache_capacity(cache) > 0 &&
           (!percpu.rseq ||
            __builtin_expect(atomic_load_explicit(&cache->closed, memory_order_relaxed) != 0, 0));
}

#endif
