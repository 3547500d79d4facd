/* SPDX-License-Identifier: MIT */
/*
 * reclaim.h - reclaim, for an allocation that may wait when the arena has refused memory.  The library first
 * returns its own unused memory; then it runs the callbacks that programs registered.
 *
 * Callbacks run outside the library's context and without its locks, so they may call all of it.
 * Bounded: an allocation makes RECLAIM_ROUNDS rounds at most, each callback runs once a round, and
 * there is another round only while the last one gave something back and was not enough.  Allocations
 * of a callback do not reclaim.
 */
#ifndef STOOK_CACHE_RECLAIM_H
#define STOOK_CACHE_RECLAIM_H

#include "base/lock.h"

#include <stook/reserve.h>
#include <stook/stook.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { RECLAIM_ROUNDS = 4, RECLAIM_DRAINING = STOOK_RECLAIM_MAX + 1 };

/* Where this thread is: in a callback (its number + 1), RECLAIM_DRAINING, or 0. */
extern __thread unsigned reclaim_inside
    __attribute__((visibility("hidden"), tls_model("initial-exec")));

/* Whether an allocation may: `nested` as context_enter() said. */
static inline bool reclaim_may(unsigned flags, bool nested)
{
    return !(flags & (STOOK_NORECLAIM | STOOK_SIGNAL_SAFE)) && !nested && reclaim_inside == 0;
}

/*
 * Reclaims until the attempt succeeds or nothing more can be done: false with errno ENOMEM then.
 * The attempt runs within the context; this is called outside.  The sheaves of `cache` go first.
 */
bool reclaim_until(struct stook_cache *cache, size_t wanted, bool (*attempt)(void *arg), void *arg);

/* Up to n objects, by reclaiming; fewer with errno ENOMEM.  Outside the context. */
size_t reclaim_alloc(struct stook_cache *cache, void **objects, size_t n);

#endif
