/* SPDX-License-Identifier: MIT */
/*
 * object.h - what becomes of an object of a debug cache: it is handed out, comes back, waits for readers.
 *
 * Each object has a word (track_head.kind) that says where it is; it is changed by compare-and-swap, so that of
 * two threads that free one object at the same time one is told.
 *
 *   FREE      with the library: in its slab, or in a reserve that callers or pools hold
 *   LIVE      with a user
 *   DEFERRED  freed, and readers may still read it
 *   BUSY      on its way from one of these to another, in one thread's hands
 *
 * Its zones and poison belong to the word: they are checked against what it says before it changes, and written
 * while it says BUSY.  A thread that validates sets OBJECT_LOCKED beside the state while it restores bytes; other
 * threads wait for that, and a handler does not.  The sequence grows with each change.
 *
 * docs/debug.md has what is found.
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

/* What a public call says besides the cache: the size that it was asked for, or that a sized delete
 * gives (0: it does not), and the kind of call.  Of the next object that this thread allocates from a cache that
 * is CACHE_SIZED, or of the one that is freed: handlers and callbacks free others meanwhile. */
struct debug_asks {
    size_t size;
    enum debug_call call;
    const void *freed; /* NULL: an allocation */
};
/* What was said before, for the end of a call: a handler may have interrupted another one. */
struct debug_asks debug_ask(struct debug_asks asks);
/* The size that this thread asks for, or that its sized delete of an object gives; 0: it was not said. */
size_t debug_asked(const struct stook_cache *cache);
size_t debug_asked_free(const struct stook_cache *cache, const void *object);

/* Whether n objects may be allocated: the cache is not destroyed, and nothing fails on purpose.  False:
 * errno ENOMEM, or EDQUOT of malloc's. */
bool debug_begin(const struct stook_cache *cache, size_t n, uint64_t where);

/* An object is about to be handed out.  False: it must not be, and no other call has it. */
bool debug_take(const struct stook_cache *cache, void *object, uint64_t where);

/* Objects come back from a user.  NULL entries are skipped; those become NULL that are not to be freed. */
void debug_free(const struct stook_cache *cache, void **objects, size_t n);
/* The same of one that readers may still read, and when they do no more. */
void debug_defer(const struct stook_cache *cache, void **object);
void debug_deferred(const struct stook_cache *cache, void *object);

/* Bytes of a live object that its user may write to: with Z, what was asked for. */
size_t debug_usable(const struct stook_cache *cache, const void *object);
/* Whether the object of a pointer is with a user, as one must be whose size is asked for, or changed; else that is
 * reported as found by `call`. */
bool debug_live(const struct stook_cache *cache, const void *object, const char *call);
/* A live object of a cache that is CACHE_SIZED is used for so many bytes from now on, which its cache's objects have. */
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

/* A new object's, which no other thread sees. */
void object_init(const struct stook_cache *cache, struct slab *slab, uint32_t index);

/* Checks an object that is in the caller's hands, or is locked, against a state; reports and restores: errors
 * found.  `where`: the call, or 0. */
unsigned object_check(const struct stook_cache *cache, const struct slab *slab, uint32_t index,
                      enum object_state state, uint64_t where);
/* The same of an object that may be in use by other threads meanwhile; what is not steady is not checked. */
unsigned object_validate(const struct stook_cache *cache, const struct slab *slab, uint32_t index);
/* In a forked child, where the thread that validated is gone. */
void object_child(void);

#endif
