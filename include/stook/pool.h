/* SPDX-License-Identifier: MIT */
/*
 * pool.h - a reserve of objects for threads that must make progress under memory pressure
 * (docs/reserves.md).  stook/stook.h has the conventions.
 */
#ifndef STOOK_POOL_H
#define STOOK_POOL_H

#include <stook/stook.h>

#include <stddef.h>
#include <time.h>

STOOK_C_BEGIN

struct timespec; /* of <time.h>, which strict C99 leaves without it */

#define STOOK_POOL_OBJECTS_MAX (1u << 24) /* objects in a pool's reserve */

/*
 * A pool.  It keeps min_objects of a cache in a reserve.  Any number of threads may use it, several pools
 * may share a cache, and a program may use the cache directly as well.
 */
struct stook_pool;

/*
 * Make a pool of a cache's objects and fill its reserve.
 *
 * With min_objects 0 a pool is a cache whose callers can wait for an object.
 *
 * returns: the pool, which the caller destroys before its cache; or NULL
 * errors:  E2BIG    min_objects is beyond STOOK_POOL_OBJECTS_MAX
 *          ENOMEM   out of memory for the reserve, or for the pool: some 4 KiB and 64 bytes a used CPU
 * context: not in a signal handler
 * locks:   as stook_alloc_bulk()
 * cost:    microseconds
 */
STOOK_API struct stook_pool *stook_pool_create(struct stook_cache *cache, unsigned min_objects)
    STOOK_NONNULL(1) STOOK_WARN_UNUSED;

/*
 * Destroy a pool and return its reserve to the cache.
 *
 * NULL is accepted.  While objects of the pool are in use the call fails, the pool stays usable, and a
 * message says how many there are.  The caller guarantees that no other thread is in a call on the pool.
 *
 * errors:  EBUSY    objects of the pool are in use
 * context: not in a signal handler
 * locks:   as stook_free()
 */
STOOK_API int stook_pool_destroy(struct stook_pool *pool);

/*
 * Allocate one object of a pool.
 *
 * The pool takes it from the cache, as with STOOK_NORECLAIM; else from the reserve; else, with
 * STOOK_WAIT, it reclaims and then sleeps until an object is freed to the pool.  Each second it tries the
 * cache again, since memory may become free elsewhere.  With STOOK_WAIT it fails where it may not
 * sleep: in a reclaim callback, and in a handler that interrupted the library.  It also fails, with EDQUOT and at once, if
 * the thread's group is at a limit: it waits for objects, and not for room in a group.  A thread that holds objects
 * of a pool must be able to free them without another one of that pool.
 *
 * stook_pool_alloc_until() waits until `deadline` at most, an absolute time of CLOCK_MONOTONIC.  If that
 * has passed already, it reclaims and does not sleep.  It may return later: a reclaim callback is not
 * interrupted.  The caller frees the object with stook_pool_free().
 *
 * returns: the object, or NULL
 * errors:  ENOMEM     nothing in the cache and in the reserve, and this call does not wait
 *          EINVAL     as stook_alloc(); tv_nsec is not in [0, 1000000000)
 *          EDQUOT     as stook_alloc(); STOOK_WAIT does not wait then
 *          ETIMEDOUT  the deadline has passed
 * context: any with STOOK_SIGNAL_SAFE, wherever it interrupted a call on the same pool; else not in a
 *          signal handler
 * locks:   as stook_alloc(); the reserve has none
 * cost:    stook_alloc()'s, and a count in one more restartable section; with a deadline a reading of the
 *          clock before each sleep
 */
STOOK_API void *stook_pool_alloc(struct stook_pool *pool, unsigned flags)
    STOOK_NONNULL(1) STOOK_WARN_UNUSED;
STOOK_API void *stook_pool_alloc_until(struct stook_pool *pool, unsigned flags,
                                       const struct timespec *deadline)
    STOOK_NONNULL(1, 3) STOOK_WARN_UNUSED;

/*
 * Free one object of a pool.
 *
 * It goes to the reserve while that has fewer than min_objects, else to the cache; a waiting thread is
 * woken.  NULL is accepted.  It cannot fail.  In the reserve it is free: a second free, another cache's object and a pointer
 * into one are found as by stook_free(), the last two always where the reserve takes them.
 *
 * context: any
 * locks:   as stook_free()
 * cost:    stook_free()'s, and a count
 */
STOOK_API void stook_pool_free(struct stook_pool *pool, void *object) STOOK_NONNULL(1);

/*
 * Change a pool's min_objects, beside any other call.
 *
 * A larger reserve is filled before the call returns, as far as memory allows, and by frees later.
 * Shrinking returns the excess objects to the cache.
 *
 * errors:  E2BIG    min_objects is beyond STOOK_POOL_OBJECTS_MAX
 *          ENOMEM   out of memory for the reserve's own array: nothing has changed
 * context: not in a signal handler
 * locks:   as stook_alloc_bulk()
 */
STOOK_API int stook_pool_resize(struct stook_pool *pool, unsigned min_objects) STOOK_NONNULL(1);

/*
 * Objects in a pool's reserve now.
 *
 * context: any
 * locks:   none
 */
STOOK_API unsigned stook_pool_available(const struct stook_pool *pool) STOOK_NONNULL(1);

STOOK_C_END

#endif /* STOOK_POOL_H */
