/* SPDX-License-Identifier: MIT */
/*
 * adapt.h - the policy: how large a cache's sheaves are, its barns' limits with them, and what all
 * caches may hold.
 *
 * The mechanism below (sheaf/) reads what this wrote into struct policy, and leaves a verdict there.
 * The policy acts after a call: adapt_act_on_verdict() once the call has left the library, with no slot closed
 * and no lock held, and without asking the kernel for anything but memory; upkeep (upkeep.h) for what
 * takes other CPUs' sheaves.
 *
 * A change is a store: sheaves that are made from then on have the new capacity.  Those of the old
 * one are worth what they hold; when they pass a barn empty they are freed instead of kept, so are
 * those that wait empty in barns.  After a change to less, the slots of all CPUs are drained as for
 * stook_cache_shrink(): by the call that changed it, or, where a cache fell after a free, by upkeep.
 *
 * An adaptive cache grows a level when its barns miss sheaves that they refused, although their limit is at its
 * highest: sheaves and barns double, within the budgets.  So it does when a CPU's main and spare, which are short, have
 * changed places 256 times.  It falls back to level 0 when its barns refuse many sheaves, when it is shrunk, and when
 * it is idle.  It cannot notice the last itself.  So threads that exchange
 * sheaves of other caches check the caches that have grown, one after the other.
 */
#ifndef STOOK_CACHE_ADAPT_H
#define STOOK_CACHE_ADAPT_H

#include "slab/cache.h"

#include <stdbool.h>
#include <stddef.h>

/* Caches of which cache_has_grown() is true; while there are none no cache is looked at. */
extern _Atomic uint32_t adapt_grown __attribute__((visibility("hidden")));

/* Objects of a sheaf where the program gave no number. */
unsigned adapt_default_capacity(const struct stook_cache *cache);

/* A cache that is being made: its base capacity, limits and budget. */
void adapt_init(struct stook_cache *cache, unsigned base, size_t cached_max);

/* Back to level 0; CPUs' sheaves are drained.  No lock held. */
void adapt_shrink(struct stook_cache *cache);

/* Acts on a verdict.  errno is kept. */
void adapt_act(struct stook_cache *cache);

/* At the end of a call's slow path, outside the context.  `within`: it interrupted the library, or may
 * not wait for a lock; a later call acts then. */
static inline void adapt_act_on_verdict(struct stook_cache *cache, bool within)
{
    if (__builtin_expect(__atomic_load_n(&cache->policy.verdict, __ATOMIC_RELAXED) != BARN_CONTENT,
                         0) &&
        !within)
        adapt_act(cache);
}

/*
 * Checks the next grown cache that is not `own`.  If its barns have seen no exchange for two checks, it is idle
 * and is shrunk.  If it fell by itself, its larger sheaves are taken from the CPUs.  `near`: makes no system
 * call, and CPUs keep their sheaves.
 */
void adapt_scan(const struct stook_cache *own, bool near);

#endif
