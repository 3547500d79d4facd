/* SPDX-License-Identifier: MIT */
/*
 * slot_steps.h - common steps of the slow halves of alloc (slot_alloc.c) and of free (slot_free.c); no
 * other file includes it.
 */
#ifndef STOOK_SHEAF_SLOT_STEPS_H
#define STOOK_SHEAF_SLOT_STEPS_H

#include "sheaf/slot.h"
#include "slab/slab.h"
#include "slab/stat.h"

enum { SLOT_TURNS = 4 }; /* of a call: its bound, since others may empty or fill what it found */

static inline struct sheaf *slot_real(struct sheaf *main)
{
    return main == SHEAF_NONE ? NULL : main;
}

/*
 * n objects of a call, moved since this thread last said how often it came down to slabs: fast, or
 * slow when slabs were touched for them.  The events are of two enumerators: fast and slow.
 */
static inline void slot_tally(struct stook_cache *cache, enum stat_event fast, enum stat_event slow,
                              uint32_t n, uint64_t *touches)
{
    uint64_t now = slab_counts.touches;

    stat_add(cache, now == *touches ? fast : slow, n);
    *touches = now;
}

static inline void slot_tally_alloc(struct stook_cache *cache, uint32_t n, uint64_t *touches)
{
    slot_tally(cache, STAT_alloc_fastpath, STAT_alloc_slowpath, n, touches);
}

/* Whether the caller has tried no section on this slot: there are none, or the fast path is closed. */
static inline bool slot_untried(const struct stook_cache *cache)
{
    return cache_capacity(cache) > 0 &&
           (!percpu.rseq ||
            __builtin_expect(atomic_load_explicit(&cache->closed, memory_order_relaxed) != 0, 0));
}

#endif
