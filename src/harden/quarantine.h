/* SPDX-License-Identifier: MIT */
/*
 * quarantine.h - what becomes of a freed object of a hardened cache (STOOK_CACHE_ZERO_ON_FREE,
 * STOOK_CACHE_QUARANTINE): it is filled, held back for a while, and checked before it can be had again.
 *
 * Each object of a cache with a quarantine has a word that says where it is.  It is changed by compare-and-swap, so
 * that of two frees one is refused, whichever threads make them and wherever the object is by then.
 *
 *   FREE   with the library, whatever its bytes are: a new slab's, a constructed or a type-stable one
 *   LIVE   with a user
 *   HELD   in quarantine, or waiting for RCU's readers
 *   LOST   written to after it was freed: never handed out again
 *   CLEAN  with the library, and filled (filling.h): in a slab, a barn, a sheaf or a reserve
 *
 * So a freed object is checked twice: when it leaves the quarantine, and when it is handed out again or its slab goes.
 */
#ifndef STOOK_HARDEN_QUARANTINE_H
#define STOOK_HARDEN_QUARANTINE_H

#include "slab/slab.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* In an object's word; above them how many bytes of its room are not its user's, QUARANTINE_SPARE at most. */
enum quarantine_state {
    QUARANTINE_FREE,
    QUARANTINE_LIVE,
    QUARANTINE_HELD,
    QUARANTINE_LOST,
    QUARANTINE_CLEAN,
    QUARANTINE_STATES = 8 /* a power of two */
};
enum { QUARANTINE_SPARE = UINT16_MAX / QUARANTINE_STATES };

/* An object is about to be handed out.  False: it must not be, and is lost. */
bool quarantine_take(const struct stook_cache *cache, void *object);
/* The same of a reserve's, which has no other one: what is wrong is reported, and the object is handed out. */
void quarantine_take_reserved(const struct stook_cache *cache, void *object);

/* Objects come back from users.  NULL entries are skipped; those that are refused, with a report, become NULL. */
void quarantine_check(const struct stook_cache *cache, void **objects, size_t n);

/* Then they are filled and held back: entries become NULL.  Objects that have been held for long enough go on to their
 * own caches.  Any context; errno is kept. */
void quarantine_hold(struct stook_cache *cache, void **objects, size_t n);
/* The same of objects that stay with the caller. */
void quarantine_fill(const struct stook_cache *cache, void *const *objects, size_t n);

/* Whether an object is with a user, as one must be whose size is asked for, or changed; else that is reported as found
 * by `call`. */
bool quarantine_live(const struct stook_cache *cache, const void *object, const char *call);

/* Bytes of it that are its user's. */
size_t quarantine_usable(const struct stook_cache *cache, const void *object);
/* It has another size from now on, for which it has room. */
void quarantine_resize(const struct stook_cache *cache, void *object, size_t size);

/* The same of an object of a slab, without a report; true in a cache without a quarantine. */
bool quarantine_is_live(const struct stook_cache *cache, const struct slab *slab, uint32_t index);

/* hooks.held_back */
void quarantine_release(struct stook_cache *cache);
/* hooks.held_slab_gone */
void quarantine_slab_gone(const struct stook_cache *cache, const struct slab *slab);
/* In a forked child, whose other threads are gone. */
void quarantine_child(void);
/* Reads STOOK_QUARANTINE, before the first cache. */
void quarantine_start(void);

/* The n-th object that a CPU's queue holds, or NULL; for a thread that is alone. */
void *quarantine_held(unsigned cpu, uint32_t n);
/* Bytes that all CPUs hold now; racy. */
size_t quarantine_bytes(void);

#endif
