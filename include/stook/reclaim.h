/* SPDX-License-Identifier: MIT */
/*
 * reclaim.h - callbacks that give memory back before an allocation fails (docs/reserves.md).
 */
#ifndef STOOK_RECLAIM_H
#define STOOK_RECLAIM_H

#include <stook/stook.h>

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

#define STOOK_RECLAIM_MAX 64u /* reclaim callbacks at one time */

/*
 * Reclaim.  Before an allocation with STOOK_WAIT (one object, bulk, sheaf or pool) fails for want of
 * memory, the library gives back what it holds unused itself, the sheaves of all caches and their
 * empty slabs; then it calls every registered function once, with the bytes that it lacks, tries
 * again, and goes on with another round, four at most, while they say that they gave something back.
 *
 * A callback gives back what the program can do without (frees objects of any cache) and returns how
 * many bytes, 0 for nothing.  It runs in the thread that allocates, without any lock of the library,
 * in several threads at once perhaps, and may call all of the library; what it allocates itself does
 * not reclaim, and does not wait for pools.  Whoever allocates with STOOK_WAIT must hold no lock that
 * a callback takes; with libstook-malloc, malloc() does so.
 *
 * errors:  EINVAL   fn is NULL;  EEXIST  registered already (register)
 *          ENOSPC   STOOK_RECLAIM_MAX are registered (register);  ENOENT  it is not (unregister)
 * context: not from a signal handler.  stook_reclaim_unregister() waits until no thread is in the
 * callback any more, but for the calling one if it is in it itself.
 */
typedef size_t (*stook_reclaim_fn)(size_t wanted, void *arg);
STOOK_API int stook_reclaim_register(stook_reclaim_fn fn, void *arg);
STOOK_API int stook_reclaim_unregister(stook_reclaim_fn fn, void *arg);

#ifdef __cplusplus
}
#endif

#endif /* STOOK_RECLAIM_H */
