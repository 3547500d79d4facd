/* SPDX-License-Identifier: MIT */
/*
 * upkeep.h - what becomes due on the way and asks the kernel for things, or takes other CPUs' slots: a
 * scan for CPUs that were left, capacities that fall, warm memory that the program needs no more.
 *
 * The calls that find it due only say so (context.h).  An allocation that may wait does it, of a
 * cache that is not malloc's, once it has left the library.  A free, malloc, or a handler that interrupted the
 * library never does.  malloc does what asks the kernel for nothing but memory.  Barns of an
 * idle cache go back to their first limit, and warm memory to the kernel.
 */
#ifndef STOOK_CACHE_UPKEEP_H
#define STOOK_CACHE_UPKEEP_H

#include "base/context.h"
#include "cache/adapt.h"
#include "cache/reclaim.h"

void upkeep_do(const struct stook_cache *cache);

/* At the end of an allocation: `nested` as context_enter() said. */
static inline void upkeep_after(struct stook_cache *cache, unsigned flags, bool nested)
{
    adapt_act_on_verdict(cache, nested || (flags & STOOK_SIGNAL_SAFE));
    if (__builtin_expect(context_self()->due != 0, 0) && reclaim_may(flags, nested))
        upkeep_do(cache);
}

#endif
