/* SPDX-License-Identifier: MIT */
/*
 * account.h - charges objects to groups and counts them by call site.  Layers that watch them stand above (observe/).
 *
 * Only caches with hooks come here.  Their fast path is closed, and the slow path tests cache_hooks() first.
 *
 * Each object has two elements of 8 bytes in its slab's columns (slab/column.h): the owner (the group that is charged)
 * and the tag (the call site).  They are valid while a user has the object.  An object in a sheaf or a reserve is
 * charged to no group.
 *
 *   alloc:  account_begin() charges, and may refuse;  the caller takes objects;  account_end() writes the columns
 *   free:   account_return() reads the columns and returns the charges;  the caller frees the objects
 *
 * A large object has a note (large/large.h) in place of the two elements.
 */
#ifndef STOOK_CHARGE_ACCOUNT_H
#define STOOK_CHARGE_ACCOUNT_H

#include "base/hooks.h"
#include "base/where.h"
#include "slab/cache.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct slab;
struct stook_group;

/* The accounting of one call. */
struct account {
    uint32_t group, tag; /* the group that was charged, and the tag; 0: none */
};

/* The group to charge is a number or one of these: the group that the thread has entered, or none (reserves). */
#define ACCOUNT_CURRENT HOOKS_GROUP
#define ACCOUNT_NOBODY 0u

/*
 * Charges n objects.  False with nothing charged: errno EDQUOT if a group is at its limit, or ENOMEM.  Outside the
 * context, without locks.
 */
bool account_begin(const struct stook_cache *cache, struct account *account, size_t n,
                   unsigned flags, uint64_t where, uint32_t group);

/* Writes owner and tag of the `got` objects that the caller took, and returns the charge of the other n - got. */
void account_end(const struct stook_cache *cache, const struct account *account,
                 void *const *objects, size_t got, size_t n);

/* The call at `where` allocates an object that is charged already.  It is counted for that call site. */
void account_retag(const struct stook_cache *cache, const void *object, uint64_t where);

/* Objects that leave their user, or a reserve: returns the charges and counts the frees, before the caller frees them.
 * NULL entries are skipped; a pointer that is no object of the cache is reported, and becomes NULL.  Any context; errno is
 * kept. */
void account_return(const struct stook_cache *cache, void **objects, size_t n);

/*
 * The same for large objects (large/large.h).
 *
 *   account_large()          a new object, charged to `owner` (0: no group).  False with errno: nothing is charged
 *                            or recorded, and the caller unmaps the object.
 *   account_large_resized()  an object that was resized in place from `had` bytes.  False: the caller must restore
 *                            the old size.
 *   account_large_clear()    an object that is about to be freed; false: the pointer is none.
 *   account_large_moved()    an object of `had` bytes that was moved.
 */
bool account_large(void *object, uint32_t owner, unsigned flags, uint64_t where);
bool account_large_resized(void *object, size_t had, unsigned flags);
bool account_large_clear(void *object);
void account_large_moved(void *moved, size_t had);

/* account_process: the group that malloc's objects are charged to.  account_all: of ACCOUNT_*, what is done with the
 * objects of all caches.  account_large_tags: whether large objects are counted by call site; then none is a sample.
 * account_watched: accounted_watched().  Written at start, and when tags, samples or a trace are switched. */
extern uint32_t account_process __attribute__((visibility("hidden")));
extern uint32_t account_all __attribute__((visibility("hidden")));
extern atomic_bool account_large_tags __attribute__((visibility("hidden")));
extern _Atomic unsigned account_watched __attribute__((visibility("hidden")));

static inline bool account_large_counted(void)
{
    return atomic_load_explicit(&account_large_tags, memory_order_relaxed);
}

/* Whether allocations of malloc and kmalloc are counted for samples. */
static inline bool account_sampled(void)
{
    return __builtin_expect(atomic_load(&account_watched) & HOOKS_CLOSES_ALLOC, 0);
}

/* Tags were switched on or off after objects were allocated: columns may hold tags of objects that are free. */
void account_switched(void);

/* Closes or opens a cache for some of ACCOUNT_*.  Under the cache list's lock. */
void account_close(struct stook_cache *cache, uint32_t parts, bool close);

/* HOOKS_CACHE_MADE: computes cache->account, and closes it.  A slab with tags goes: counts frees that no hook saw. */
void account_cache_made(struct stook_cache *cache);
void account_slab_gone(const struct stook_cache *cache, const struct slab *slab);

#endif
