/* SPDX-License-Identifier: MIT */
/*
 * quarantine.h - freed objects of hardened caches (STOOK_CACHE_ZERO_ON_FREE, STOOK_CACHE_QUARANTINE).  The library fills
 * a freed object, delays its reuse, and checks it before it is allocated again.
 *
 * Each object of a cache with a quarantine has a state word.  Every change of state is a compare-and-swap, so two frees
 * of one object cannot both succeed, whichever threads make them.
 *
 *   FREE   free, with any bytes: of a new slab, with a constructor, or type-stable
 *   LIVE   in use
 *   HELD   in a queue of the quarantine, or waiting for a grace period of RCU
 *   LOST   a write after the free was found: never allocated again
 *   CLEAN  free and filled (canary.h): in a slab, a barn, a sheaf or a reserve
 *
 *   LIVE -> HELD           quarantine_check(), on a free
 *   HELD -> CLEAN, FREE    the object leaves the quarantine, and its bytes are as they were filled
 *   HELD, CLEAN -> LOST    the bytes have changed
 *   CLEAN, FREE -> LIVE    quarantine_take(), on an allocation
 *
 * A freed object is therefore checked twice: when it leaves the quarantine, and when it is allocated again or its slab
 * is freed.
 */
#ifndef STOOK_HARDEN_QUARANTINE_H
#define STOOK_HARDEN_QUARANTINE_H

#include "slab/slab.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The low bits of an object's word.  The bits above them say how many bytes of the object's room the user did not
 * request, QUARANTINE_SPARE at most. */
enum quarantine_state {
    QUARANTINE_FREE,
    QUARANTINE_LIVE,
    QUARANTINE_HELD,
    QUARANTINE_LOST,
    QUARANTINE_CLEAN,
    QUARANTINE_STATES = 8 /* a power of two */
};
enum { QUARANTINE_SPARE = UINT16_MAX / QUARANTINE_STATES };
enum { QUARANTINE_STATE = 2 }; /* bytes of an object's word */

/* An object is about to be allocated.  False: it was written to, is lost, and the caller takes another one. */
bool quarantine_take(const struct stook_cache *cache, void *object);
/* The same for an object of a reserve, which has no other one: a finding is reported, and the object is used anyway. */
void quarantine_take_reserved(const struct stook_cache *cache, void *object);

/* Users free objects: LIVE -> HELD.  NULL entries are skipped.  A refused entry is reported and becomes NULL. */
void quarantine_check(const struct stook_cache *cache, void **objects, size_t n);

/* After quarantine_check(): fills the objects and queues them; their entries become NULL.  An entry that no queue could
 * take stays for the caller to free.  The oldest objects of the queue are freed to their own caches.  Any context; errno
 * is kept. */
void quarantine_hold(struct stook_cache *cache, void **objects, size_t n);
/* After quarantine_check(): fills the objects, which the caller keeps, and does not queue them. */
void quarantine_fill(const struct stook_cache *cache, void *const *objects, size_t n);

/* Whether an object is in use, as realloc() and the calls that ask for a size require.  If not, that is reported as
 * found by `call`. */
bool quarantine_live(const struct stook_cache *cache, const void *object, const char *call);
/* The same for an object of a slab, without a report; true in a cache without a quarantine. */
bool quarantine_is_live(const struct stook_cache *cache, const struct slab *slab, uint32_t index);

/* Bytes of an object that its user may use. */
size_t quarantine_usable(const struct stook_cache *cache, const void *object);
/* Resizes an object within its room. */
void quarantine_resize(const struct stook_cache *cache, void *object, size_t size);

/* HOOKS_CACHE_DRAINED: frees all objects of the cache that queues hold. */
void quarantine_release(struct stook_cache *cache);
/* hooks.slab: checks the free objects of a slab before its pages are freed. */
void quarantine_slab_gone(const struct stook_cache *cache, const struct slab *slab);
/* In a forked child: opens the queues that other threads of the parent had locked. */
void quarantine_child(void);

/* The n-th object in a CPU's queue, or NULL.  All other threads must be stopped. */
void *quarantine_held(unsigned cpu, uint32_t n);
/* Bytes in the queues of all CPUs; racy. */
size_t quarantine_bytes(void);

#endif
