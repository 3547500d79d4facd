/* SPDX-License-Identifier: MIT */
/*
 * sheaf.h - prefilled sheaves: objects that are allocated beforehand, so that a later allocation cannot
 * fail (docs/reserves.md).  stook/stook.h has the conventions.
 */
#ifndef STOOK_SHEAF_H
#define STOOK_SHEAF_H

#include <stook/stook.h>

#include <stddef.h>

STOOK_C_BEGIN

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
 * errors:  EINVAL   size is 0, unknown flags
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

STOOK_C_END

#endif /* STOOK_SHEAF_H */
