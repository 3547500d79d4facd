/* SPDX-License-Identifier: MIT */
/*
 * pool.h - a reserve of objects for threads that must make progress under memory pressure
 * (docs/reserves.md).
 */
#ifndef STOOK_POOL_H
#define STOOK_POOL_H

#include <stook/stook.h>

#include <stddef.h>
#include <time.h>

#ifdef __cplusplus
extern "C" {
#endif

#define STOOK_POOL_OBJECTS_MAX (1u << 24) /* objects in a pool's reserve */

/*
 * A pool: min_objects of the cache in a reserve, for who must get on where memory is short.  Any
 * number of threads may use it, several pools may share a cache, and the cache may be used directly
 * beside.
 */
struct stook_pool;

/*
 * Make a pool and fill its reserve.  With min_objects 0 it is a cache that one can wait for.
 *
 * errors:  E2BIG    min_objects beyond STOOK_POOL_OBJECTS_MAX
 *          ENOMEM   no memory for the reserve, or for the pool: some 4 KiB and 64 bytes a used CPU
 * context: not from a signal handler.  locks: as stook_alloc_bulk().  cost: microseconds.
 */
STOOK_API struct stook_pool *stook_pool_create(struct stook_cache *cache, unsigned min_objects)
    STOOK_NONNULL(1) STOOK_WARN_UNUSED;

/*
 * Destroy a pool; its reserve goes back to the cache.  NULL is accepted.  While objects of it are
 * out it fails with EBUSY, stays usable, and a report on stderr says how many.  The caller guarantees
 * that no other thread is in a call on this pool.  A pool goes before its cache.
 *
 * errors:  EBUSY    objects of the pool are in use
 * context: not from a signal handler.
 */
STOOK_API int stook_pool_destroy(struct stook_pool *pool);

/*
 * Take one object: from the cache, as with STOOK_NORECLAIM; else from the reserve; else, with
 * STOOK_WAIT, reclaim and then sleep until an object is freed to the pool (and look again each
 * second, since memory may come back elsewhere).  With STOOK_WAIT it fails only where it may not
 * sleep: in a reclaim callback, and in a handler that interrupted the library.
 * STOOK_ZERO is honoured.
 *
 * errors (NULL): ENOMEM   nothing in the cache and in the reserve, and this context does not wait
 *                EINVAL   as stook_alloc()
 * context: signal handlers with STOOK_SIGNAL_SAFE, wherever they interrupted a call on the same pool.
 * locks: as stook_alloc(); the reserve has none.  cost: stook_alloc()'s and a count, which is one more
 * restartable section.
 */
STOOK_API void *stook_pool_alloc(struct stook_pool *pool, unsigned flags)
    STOOK_NONNULL(1) STOOK_WARN_UNUSED;

/*
 * The same, but it waits until `deadline` at most, an absolute time of CLOCK_MONOTONIC; one that has
 * passed is a try with reclaim and without sleep.  It may return later than that: a reclaim callback is
 * not interrupted.
 *
 * errors (NULL): ETIMEDOUT  the deadline has passed
 *                EINVAL     tv_nsec is not in [0, 1000000000)
 *                and as stook_pool_alloc()
 * context, locks, cost: as stook_pool_alloc(), and a reading of the clock before each sleep.
 */
STOOK_API void *stook_pool_alloc_until(struct stook_pool *pool, unsigned flags,
                                       const struct timespec *deadline)
    STOOK_NONNULL(1, 3) STOOK_WARN_UNUSED;

STOOK_API void *stook_pool_alloc_at(struct stook_pool *pool, unsigned flags,
                                    struct stook_site *site) STOOK_NONNULL(1) STOOK_WARN_UNUSED;

/*
 * Return one object of the pool: to the reserve first, while that has fewer than min_objects, else
 * to the cache; wakes one who waits.  NULL is accepted.  Cannot fail.
 * context: any, signal handlers included.  locks: as stook_free().
 */
STOOK_API void stook_pool_free(struct stook_pool *pool, void *object) STOOK_NONNULL(1);

/*
 * Change min_objects beside any other call.  A larger reserve is filled before this returns, as far
 * as memory allows, and by frees then; what a smaller one has too much goes back to the cache.
 *
 * errors:  E2BIG    min_objects beyond STOOK_POOL_OBJECTS_MAX
 *          ENOMEM   no memory for the reserve's own array: nothing has changed
 * context: not from a signal handler.
 */
STOOK_API int stook_pool_resize(struct stook_pool *pool, unsigned min_objects) STOOK_NONNULL(1);

/* Objects in the reserve now. */
STOOK_API unsigned stook_pool_available(const struct stook_pool *pool) STOOK_NONNULL(1);

#ifdef __cplusplus
}
#endif

#ifdef STOOK_SITE
#define stook_pool_alloc(...) stook_pool_alloc_at(__VA_ARGS__, STOOK_SITE)
#endif

#endif /* STOOK_POOL_H */
