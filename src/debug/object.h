/* SPDX-License-Identifier: MIT */
/*
 * object.h - the checks of a debug cache's objects when they are allocated, freed and deferred.
 *
 * Each object has a state word (track_head.kind).  Every change of it is a compare-and-swap, so if two threads free one
 * object at the same time, one of them fails and reports a double free.
 *
 *   FREE      free: in its slab, or in a reserve that a caller or a pool holds
 *   LIVE      in use
 *   DEFERRED  freed, and readers may still read it
 *   BUSY      one thread is changing it from one of these states to another
 *
 * The state decides what the object's zones and poison must be.  A thread checks them before it changes the state, and
 * writes them while the state is BUSY.  A thread that validates sets the bit OBJECT_LOCKED while it restores bytes.
 * Other threads wait until it is clear; a signal handler does not.  The sequence number grows with each change.
 *
 * docs/debug.md lists the errors that are found.
 */
#ifndef STOOK_DEBUG_OBJECT_H
#define STOOK_DEBUG_OBJECT_H

#include "debug/track.h"
#include "debug/zone.h"

#include <stdatomic.h>

enum object_state {
    OBJECT_FREE, /* 0: what a new slab's words are */
    OBJECT_LIVE,
    OBJECT_DEFERRED,
    OBJECT_BUSY,
    OBJECT_STATE = 7,
    OBJECT_LOCKED = 8,
    OBJECT_CALL_SHIFT = 4, /* of enum debug_call, in 3 bits */
    OBJECT_CALL = 7 << OBJECT_CALL_SHIFT,
    OBJECT_SEQUENCE = 1 << 8, /* and all above */
};

/* Which call an object is allocated or freed by; mismatches are reported. */
enum debug_call {
    DEBUG_CALL_ANY, /* typed caches, kmalloc: not compared */
    DEBUG_CALL_MALLOC,
    DEBUG_CALL_NEW,
    DEBUG_CALL_NEW_ARRAY,
};

/* Arguments of a public call that the core does not pass on.  They hold for the next object that this thread allocates
 * from a CACHE_SIZED cache, or for the object `freed`: signal handlers and callbacks may free others meanwhile. */
struct debug_asks {
    size_t size; /* requested, or passed by a sized delete; 0: unknown */
    enum debug_call call;
    const void *freed; /* NULL: an allocation */
};
/* Sets them and returns the former ones, which the caller restores: it may have interrupted another call. */
struct debug_asks debug_ask(struct debug_asks asks);
/* The size that this thread requests, or that its sized delete of an object passed; 0: unknown. */
size_t debug_asked(const struct stook_cache *cache);
size_t debug_asked_free(const struct stook_cache *cache, const void *object);

/* Whether n objects may be allocated: the cache exists, and STOOK_FAIL does not fail the call.  False: errno ENOMEM, or
 * EDQUOT of malloc's caches. */
bool debug_begin(const struct stook_cache *cache, size_t n, uint64_t where);

/* An object is about to be allocated: FREE -> LIVE.  False: the caller must take another one, and leave this one alone. */
bool debug_take(const struct stook_cache *cache, void *object, uint64_t where);

/* Objects are freed: LIVE -> FREE.  NULL entries are skipped; a refused entry becomes NULL. */
void debug_free(const struct stook_cache *cache, void **objects, size_t n);
/* An object is deferred: LIVE -> DEFERRED.  debug_deferred(): its grace period is over: DEFERRED -> FREE. */
void debug_defer(const struct stook_cache *cache, void **object);
void debug_deferred(const struct stook_cache *cache, void *object);

/* Bytes of a live object that its user may write to: with Z, the requested size. */
size_t debug_usable(const struct stook_cache *cache, const void *object);
/* Whether an object is in use, as realloc() and the calls that ask for a size require.  If not, that is reported as found
 * by `call`. */
bool debug_live(const struct stook_cache *cache, const void *object, const char *call);
/* Resizes a live object of a CACHE_SIZED cache within its object size. */
void debug_resize(const struct stook_cache *cache, void *object, size_t size);

/* ---- for the checks of whole slabs (slabs.c) ---------------------------------------------------- */

static inline _Atomic uint32_t *object_word(const struct stook_cache *cache,
                                            const struct slab *slab, uint32_t index)
{
    return (_Atomic uint32_t *)(void *)&track_head(cache, slab, index)->kind;
}

static inline bool debug_is_live(const struct stook_cache *cache, const struct slab *slab,
                                 uint32_t index)
{
    return (atomic_load_explicit(object_word(cache, slab, index), memory_order_acquire) &
            OBJECT_STATE) == OBJECT_LIVE;
}

/* Writes the column's element, zones and poison of a new object, which no other thread sees. */
void object_init(const struct stook_cache *cache, struct slab *slab, uint32_t index);

/* Checks the bytes of a free object of a slab that goes; reports and restores. */
void object_check_free(const struct stook_cache *cache, const struct slab *slab, uint32_t index);
/* Checks, reports and restores the bytes of an object that other threads may use meanwhile; returns the number of errors.
 * If they change its state, it is not checked. */
unsigned object_validate(const struct stook_cache *cache, const struct slab *slab, uint32_t index);
/* In a forked child, where the thread that validated is gone. */
void object_child(void);

#endif
