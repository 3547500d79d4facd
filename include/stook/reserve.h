/* SPDX-License-Identifier: MIT */
/*
 * reserve.h - memory for threads that must make progress when memory is short (docs/reserves.md): prefilled sheaves, pools,
 * and callbacks that free memory.  stook/stook.h has the conventions.
 *
 * A prefilled sheaf has objects that are allocated beforehand, so that a later allocation cannot fail.  A pool keeps some
 * objects for all its callers, who can wait for one.
 */
#ifndef STOOK_RESERVE_H
#define STOOK_RESERVE_H

#include <stook/stook.h>

#include <stddef.h>
#include <time.h>

STOOK_C_BEGIN

/* ---- prefilled sheaves ---------------------------------------------------------------------- */

/*
 * A prefilled sheaf.  It and its objects belong to the caller; one thread or handler uses it at a time.
 */
struct stook_sheaf;

/*
 * Make a sheaf with at least `size` objects of a cache.
 *
 * The call fills it up to the cache's sheaf capacity as far as memory allows.  A size beyond the capacity
 * gets an oversize sheaf, which is freed when it is returned.  STOOK_ZERO is ignored here: it is for stook_sheaf_alloc().
 *
 * returns: the sheaf, which the caller returns with stook_sheaf_return(); or NULL
 * errors:  EINVAL   size is 0, unknown flags; the cache was destroyed
 *          ENOMEM   out of memory, or the flags forbid the work needed to get some
 * context: any with STOOK_SIGNAL_SAFE, else not in a signal handler
 * locks:   barn, node, arena, in turn
 * cost:    mostly this CPU's spare sheaf or one of the barn's changes hands, and no slab is touched
 */
STOOK_API struct stook_sheaf *stook_sheaf_prefill(struct stook_cache *cache, unsigned flags,
                                                  unsigned size) STOOK_NONNULL(1) STOOK_WARN_UNUSED;

/*
 * Fill a sheaf to at least `size` objects again.
 *
 * If it holds that many, the call is a no-op.  A size beyond its capacity replaces it by a larger sheaf:
 * *sheaf changes, and the old pointer is void.
 *
 * errors:  EINVAL   sheaf or *sheaf is NULL, unknown flags
 *          ENOMEM   as stook_sheaf_prefill(); the sheaf is as it was
 * context: any with STOOK_SIGNAL_SAFE, else not in a signal handler
 * locks:   as stook_sheaf_prefill()
 */
STOOK_API int stook_sheaf_refill(struct stook_cache *cache, unsigned flags,
                                 struct stook_sheaf **sheaf, unsigned size) STOOK_NONNULL(1);

/*
 * Objects in a sheaf.
 *
 * context: any
 * locks:   none
 */
STOOK_API unsigned stook_sheaf_size(const struct stook_sheaf *sheaf) STOOK_NONNULL(1);

/*
 * Allocate one object from a sheaf.
 *
 * It cannot fail for want of memory while the sheaf holds an object, since it takes nothing else.  The object is
 * freed as any other.  With a cache that is accounted, the prefill has charged it.
 *
 * returns: the object, or NULL
 * errors:  ENOMEM   the sheaf is empty
 *          EINVAL   STOOK_ZERO on a cache with a constructor, or unknown flags
 * context: any
 * locks:   none
 * cost:    2 ns
 */
STOOK_API void *stook_sheaf_alloc(struct stook_cache *cache, unsigned flags,
                                  struct stook_sheaf *sheaf) STOOK_NONNULL(1, 3) STOOK_WARN_UNUSED;

/*
 * Return a sheaf to its cache, with the objects that it still holds.
 *
 * It goes to this CPU, or to the barn of its objects' node; an oversize sheaf is flushed.  NULL is accepted.
 * Until then stook_cache_destroy() fails with EBUSY, and stook_cache_shrink() leaves the sheaf alone.
 *
 * context: any
 * locks:   barn, node, arena, in turn
 */
STOOK_API void stook_sheaf_return(struct stook_cache *cache, struct stook_sheaf *sheaf)
    STOOK_NONNULL(1);

/* ---- pools ---------------------------------------------------------------------------------- */

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
 *          EINVAL   the cache was destroyed
 *          ENOMEM   out of memory for the reserve, or for the pool: some 4 KiB and 64 bytes a used CPU
 * context: not in a signal handler
 * locks:   as stook_alloc_bulk()
 * cost:    microseconds
 */
STOOK_API struct stook_pool *stook_pool_create(struct stook_cache *cache, unsigned min_objects)
    STOOK_NONNULL(1) STOOK_WARN_UNUSED;

/*
 * Make a pool whose objects the caller makes.
 *
 * It is an empty reserve of at most `limit` objects, which stook_pool_put() fills and stook_pool_take() empties.
 * stook_pool_alloc() and stook_pool_free() are not for it.
 *
 * The objects are of `cache`, or (NULL) of stook_kmalloc() with `size`, if one of both is given.  They count as free in the
 * reserve: debug and hardened caches, AddressSanitizer and Valgrind see their use, and a pointer that is no such object, or is
 * free already, is reported and goes nowhere.  Other pointers are never followed.
 *
 * returns: the pool, which the caller destroys; or NULL
 * errors:  E2BIG    limit is beyond STOOK_POOL_OBJECTS_MAX
 *          ENOMEM   out of memory for the pool
 * context: not in a signal handler
 * locks:   none
 * cost:    microseconds
 */
STOOK_API struct stook_pool *stook_pool_create_of(struct stook_cache *cache, size_t size,
                                                  unsigned limit) STOOK_WARN_UNUSED;

/*
 * Put an object into the reserve of a pool by stook_pool_create_of(), or take one out.
 *
 * A put wakes a waiting thread.  With limit 0 the reserve takes an object while a thread waits.  With STOOK_WAIT
 * stook_pool_take() sleeps until there is one, but not longer than a second: by then its caller may be able to make one.
 *
 * returns: 1, or 0 if the reserve is full and the caller keeps the object; the object, or NULL
 * errors:  ENOMEM   the reserve is empty
 * context: any; STOOK_WAIT not in a signal handler
 * locks:   none
 */
STOOK_API int stook_pool_put(struct stook_pool *pool, void *object) STOOK_NONNULL(1, 2);
STOOK_API void *stook_pool_take(struct stook_pool *pool, unsigned flags)
    STOOK_NONNULL(1) STOOK_WARN_UNUSED;

/*
 * Destroy a pool and return its reserve to the cache.
 *
 * Objects that the caller made are not freed: take them out before.
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
 * It waits until `deadline` at most, an absolute time of CLOCK_MONOTONIC; NULL: without end.  If that
 * has passed already, it reclaims and does not sleep.  It may return later: a reclaim callback is not
 * interrupted.  The caller frees the object with stook_pool_free().
 *
 * returns: the object, or NULL
 * errors:  ENOMEM     nothing in the cache and in the reserve, and this call does not wait
 *          EINVAL     as stook_alloc(); tv_nsec is not in [0, 1000000000), if the CPU's
 *                     sheaf is empty
 *          EDQUOT     as stook_alloc(); STOOK_WAIT does not wait then
 *          ETIMEDOUT  the deadline has passed
 * context: any with STOOK_SIGNAL_SAFE, wherever it interrupted a call on the same pool; else not in a
 *          signal handler
 * locks:   as stook_alloc(); the reserve has none
 * cost:    stook_alloc()'s, and a count in one more restartable section; with a deadline a reading of the
 *          clock before each sleep
 */
STOOK_API void *stook_pool_alloc(struct stook_pool *pool, unsigned flags,
                                 const struct timespec *deadline)
    STOOK_NONNULL(1) STOOK_WARN_UNUSED;

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
 * Shrinking returns the excess objects to the cache.  Of objects that the caller makes only the limit changes.
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

/* ---- reclaim -------------------------------------------------------------------------------- */

#define STOOK_RECLAIM_MAX 64u /* reclaim callbacks at one time */

/*
 * Register a function that frees memory, or end its registration.
 *
 * Before an allocation with STOOK_WAIT (one object, bulk, sheaf or pool) fails for want of memory, the
 * library returns its own unused memory: the sheaves of all caches and their empty slabs.  Then it calls
 * each registered function once, with the bytes that are missing, and tries again.  It repeats this, four
 * rounds at most, while the functions return that they freed something.
 *
 * fn(wanted, arg) frees objects that the program can do without, of any cache, and returns how many bytes,
 * 0 for nothing.  It runs in the thread that allocates, without any lock of the library, in several threads
 * at once perhaps, and may make any call.  Its own allocations do not reclaim and do not wait for pools.
 * A caller that allocates with STOOK_WAIT must hold no lock that fn takes; STOOK_NORECLAIM is for callers
 * that do.  With libstook-malloc, malloc() allocates as with STOOK_WAIT.
 *
 * stook_reclaim_unregister() waits until no other thread is in the callback.
 *
 * errors:  EINVAL   fn is NULL
 *          EEXIST   fn with that arg is registered already (register)
 *          ENOSPC   STOOK_RECLAIM_MAX are registered (register)
 *          ENOENT   fn with that arg is not registered (unregister)
 * context: not in a signal handler
 * locks:   reclaim callbacks
 */
typedef size_t (*stook_reclaim_fn)(size_t wanted, void *arg);
STOOK_API int stook_reclaim_register(stook_reclaim_fn fn, void *arg);
STOOK_API int stook_reclaim_unregister(stook_reclaim_fn fn, void *arg);

STOOK_C_END

#endif /* STOOK_RESERVE_H */
