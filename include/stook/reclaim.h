/* SPDX-License-Identifier: MIT */
/*
 * reclaim.h - callbacks that free memory before an allocation fails (docs/reserves.md).
 * stook/stook.h has the conventions.
 */
#ifndef STOOK_RECLAIM_H
#define STOOK_RECLAIM_H

#include <stook/stook.h>

#include <stddef.h>

STOOK_C_BEGIN

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

#endif /* STOOK_RECLAIM_H */
