/* SPDX-License-Identifier: MIT */
/*
 * sheaf.h - prefilled sheaves: objects taken beforehand (docs/reserves.md).
 */
#ifndef STOOK_SHEAF_H
#define STOOK_SHEAF_H

#include <stook/stook.h>

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * A prefilled sheaf: objects taken beforehand, so that stook_sheaf_alloc() cannot fail where failing
 * would be hard.  It and what it holds belong to the caller, one thread (or handler) at a time.
 */
struct stook_sheaf;

/*
 * A sheaf with at least `size` objects, filled up to the cache's sheaf capacity where memory allows.
 * A size beyond that gets a one-off oversize sheaf.
 *
 * errors (NULL): EINVAL   size 0, unknown flags
 *                ENOMEM   no memory, or none to be had in this context
 * context: signal handlers with STOOK_SIGNAL_SAFE.  STOOK_ZERO is stook_sheaf_alloc()'s, and ignored here.
 * locks: barn, node, arena, in turn.  cost: mostly this CPU's spare sheaf changes hands, or one of
 * the barn's: no slab is touched.
 */
STOOK_API struct stook_sheaf *stook_sheaf_prefill(struct stook_cache *cache, unsigned flags,
                                                  unsigned size) STOOK_NONNULL(1) STOOK_WARN_UNUSED;

/*
 * At least `size` objects in *sheaf again; nothing happens while it holds that many.  A size beyond
 * its capacity replaces it by a larger one: *sheaf changes, and the old pointer is void.
 *
 * errors:  EINVAL   *sheaf or sheaf is NULL, unknown flags
 *          ENOMEM   as stook_sheaf_prefill(); the sheaf is as it was
 * context, locks: as stook_sheaf_prefill().
 */
STOOK_API int stook_sheaf_refill(struct stook_cache *cache, unsigned flags,
                                 struct stook_sheaf **sheaf, unsigned size) STOOK_NONNULL(1);

/* Objects that it holds. */
STOOK_API unsigned stook_sheaf_size(const struct stook_sheaf *sheaf) STOOK_NONNULL(1);

/*
 * Take one object of the sheaf: never fails while it holds one, and looks nowhere else.  Free it as
 * any other.
 *
 * errors (NULL): ENOMEM   the sheaf is empty
 *                EINVAL   STOOK_ZERO on a cache with a constructor, or unknown flags
 * context: any.  locks: none.  cost: 2 ns.
 */
STOOK_API void *stook_sheaf_alloc(struct stook_cache *cache, unsigned flags,
                                  struct stook_sheaf *sheaf) STOOK_NONNULL(1, 3) STOOK_WARN_UNUSED;

STOOK_API void *stook_sheaf_alloc_at(struct stook_cache *cache, unsigned flags,
                                     struct stook_sheaf *sheaf, struct stook_site *site)
    STOOK_NONNULL(1, 3) STOOK_WARN_UNUSED;

/*
 * Give a sheaf back, with what it still holds: to this CPU, or to the barn of its objects' node; an
 * oversize one is flushed.  NULL is accepted.  Until then stook_cache_destroy() fails with EBUSY and
 * stook_cache_shrink() leaves it alone.
 * context: any, signal handlers included.  locks: barn, node, arena, in turn.
 */
STOOK_API void stook_sheaf_return(struct stook_cache *cache, struct stook_sheaf *sheaf)
    STOOK_NONNULL(1);

#ifdef __cplusplus
}
#endif

#ifdef STOOK_SITE
#define stook_sheaf_alloc(...) stook_sheaf_alloc_at(__VA_ARGS__, STOOK_SITE)
#endif

#endif /* STOOK_SHEAF_H */
