/* SPDX-License-Identifier: MIT */
/*
 * observe.h - what watches objects (debug/, harden/, guard/, sample/, trace/) where they come and go: each call of the
 * allocator asks here once, and not each of them.
 *
 * A cache whose objects are watched is closed by CACHE_CLOSED_WATCHED, so charge/ and the core lead here by hooks.alloc_more
 * and hooks.free_more (base/hooks.h); kmalloc/ and reserve/, which stand above, call these functions.  Large objects
 * belong to no cache, and come here each.
 *
 * There are two of each function: those of this folder, and those of face/lean.c in a library that watches nothing, which
 * only account.
 */
#ifndef STOOK_OBSERVE_OBSERVE_H
#define STOOK_OBSERVE_OBSERVE_H

#include "base/hooks.h"
#include "charge/accounted.h"
#include "sample/large_samples.h"
#include "slab/slab.h"

/* hooks.alloc_more, hooks.free_more: checks, accounts, samples, records; fills and holds back. */
size_t observe_alloc(const struct hooks_call *call);
void observe_free(struct stook_cache *cache, void **objects, size_t n);

/* The parts of the former, for callers that take the objects themselves: as account_begin() and account_end(). */
bool observe_begin(const struct stook_cache *cache, struct account *account, size_t n,
                   unsigned flags, uint64_t where, uint32_t group);
void observe_end(const struct stook_cache *cache, const struct account *account,
                 void *const *objects, size_t got, size_t n, uint64_t where);

/*
 * Frees beside observe_free(): call one of these before the objects are freed.  Each returns the charges and counts the
 * frees.  NULL entries are skipped.  A pointer that is no object of the cache is reported.  An entry that the caller must
 * not free becomes NULL.  Any context; errno is kept.
 */
/* Objects that leave their user and do not pass the quarantine. */
void observe_clear(const struct stook_cache *cache, void **objects, size_t n);
/* An object that is freed after a grace period; that is over, and no reader has it any more. */
void observe_defer(const struct stook_cache *cache, void **object);
void observe_deferred(const struct stook_cache *cache, void *object);

/* A user's object enters a reserve and stays charged.  It is checked as if it were freed; NULL if the check refuses it. */
void observe_reserve(const struct stook_cache *cache, void **object);
/* The call at `where` allocates the object of a reserve. */
void observe_unreserve(const struct stook_cache *cache, void *object, uint64_t where);
/* … one that is charged already: of a prefilled sheaf.  It is counted for that site. */
void observe_retag(const struct stook_cache *cache, const void *object, uint64_t where);

/* ---- objects in use ------------------------------------------------------------------------------ */

/* Bytes of an object that its user may use. */
size_t observe_usable(const struct stook_cache *cache, const void *object);
/* The same of one that may be none: *start says whether the pointer is the start of an object, as far as the slab knows.
 * 0: it is not in use. */
size_t observe_size(const struct stook_cache *cache, const struct slab *slab, uint32_t index,
                    const void *object, bool *start);
/* Resizes an object within its room. */
void observe_resize(struct stook_cache *cache, void *object, size_t size);
/* Whether it is in use; if not, that is reported as found by `call`. */
bool observe_live(const struct stook_cache *cache, const void *object, const char *call);

/* ---- samples and traces ---------------------------------------------------------------------------- */

/* One begins or ends: caches close or open, and malloc.  Under the cache list's lock. */
void observe_changed(void);
/* Closes or opens one cache, by whether it is watched now.  Under the same. */
void observe_cache(struct stook_cache *cache);

/* `size` bytes that are a sample (kmalloc/sampled.h); NULL: the caller takes them in the ordinary way.  errno is kept. */
void *observe_sample(struct stook_cache *cache, size_t size, size_t align, uint64_t where,
                     bool zero);
/* An object of malloc or kmalloc that is charged, or stays apart from others: it counts, and lies where it lies. */
void observe_count(struct stook_cache *cache, uint64_t where);

/* ---- large objects ----------------------------------------------------------------------------------- */

/* How many bytes to request in place of `size`, which is at most PTRDIFF_MAX. */
size_t observe_large_wanted(size_t size);
/* A new object, of which `size` bytes were asked for, is charged to `owner` (0: no group).  False with errno: nothing is
 * charged or recorded. */
bool observe_large(void *object, size_t size, uint32_t owner, unsigned flags, uint64_t where);
/* Bytes that were asked for; 0: it is none.  Any pointer. */
size_t observe_large_size(const void *object);
/* It, or any pointer, is about to be freed.  False: it is none.  NULL in its place: there is nothing left to do. */
bool observe_large_free(void **object);

/* Before it is resized, and whether it may be in place; it was, or could not be, from `had` bytes, `used` of which were asked for. */
bool observe_large_resizes(void *object);
void observe_large_resized(void *object, size_t had, size_t used, size_t size, uint64_t where);

/* Whether its pages may go elsewhere; they did, or (NULL) could not.  In between no other thread knows the object. */
struct observe_move {
    uint64_t time;
    struct large_sample sample;
};
bool observe_large_moves(void *object, struct observe_move *move);
void observe_large_moved(void *object, void *moved, size_t size, const struct observe_move *move,
                         uint64_t where);

#endif
