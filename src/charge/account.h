/* SPDX-License-Identifier: MIT */
/*
 * account.h - the hooks of allocations and frees.  They charge objects to groups, count them by call site, check
 * those of debug and hardened caches, and record them in a trace (trace/trace.h).
 *
 * Only caches with hooks come here.  Their fast path is closed, and the slow path tests cache_hooks() first.
 *
 * Each object has two elements of 8 bytes in its slab's columns (slab/column.h): the owner (the group that is charged)
 * and the tag (the call site).  They are valid while a user has the object.  An object in a sheaf or a reserve is
 * charged to no group.
 *
 *   alloc:  account_begin() charges, and may refuse;  the caller takes objects;  account_end() writes the columns
 *   free:   account_clear() reads the columns and returns the charges;  the caller frees the objects
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
    bool traced;         /* the call is recorded; allocations of the library for itself are not */
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

/* account_reserve(): a user's object enters a reserve and stays charged.  It is checked as if it were freed; NULL if
 * the check refuses it.  account_unreserve(): the call at `where` allocates the object of a reserve. */
void account_reserve(const struct stook_cache *cache, void **object);
void account_unreserve(const struct stook_cache *cache, void *object, uint64_t where);

/* The call at `where` allocates an object that is charged already: of a prefilled sheaf.  It is counted for that call
 * site. */
void account_retag(const struct stook_cache *cache, const void *object, uint64_t where);

/*
 * The accounting of frees: call one of these four before the objects are freed.  Each returns the charges and counts
 * the frees.  NULL entries are skipped.  A pointer that is no object of the cache is reported.  An entry that the
 * caller must not free becomes NULL: a debug or hardened cache has reported it.  Any context; errno is kept.
 */
/* Objects that leave their user and do not pass the quarantine. */
void account_clear(const struct stook_cache *cache, void **objects, size_t n);
/* Objects that are freed to the cache.  Entries that a quarantine holds back become NULL, too. */
void account_free(struct stook_cache *cache, void **objects, size_t n);
/* An object that is freed after a grace period. */
void account_defer(const struct stook_cache *cache, void **object);
/* Objects of a reserve, which no user had: they are neither checked nor traced. */
void account_return(const struct stook_cache *cache, void **objects, size_t n);

/*
 * The same for large objects (large/large.h).
 *
 *   account_large()          a new object, charged to `owner` (0: no group).  False with errno: nothing is charged
 *                            or recorded, and the caller unmaps the object.
 *   account_large_resized()  an object that was resized in place from `had` bytes.  False: the caller must restore
 *                            the old size.
 *   account_large_clear()    an object that is about to be freed.
 *   account_large_moved()    an object of `had` bytes that was moved to `moved` at `time` (trace_time()).
 */
bool account_large(void *object, uint32_t owner, unsigned flags, uint64_t where);
bool account_large_resized(void *object, size_t had, unsigned flags);
void account_large_clear(void *object);
void account_large_moved(void *object, void *moved, size_t had, uint64_t time);

enum { ACCOUNT_LARGE_TRACED = 8 };

/* account_process: the group that malloc's objects are charged to.  account_all: of ACCOUNT_*, what is done with the
 * objects of all caches.  account_large_hooks: ACCOUNT_TAG and ACCOUNT_LARGE_TRACED, if large objects are counted by call
 * site or traced.  Written at start, and when tags or a trace are switched. */
extern uint32_t account_process __attribute__((visibility("hidden")));
extern uint32_t account_all __attribute__((visibility("hidden")));
extern _Atomic uint32_t account_large_hooks __attribute__((visibility("hidden")));

/* Whether large objects are counted by call site.  Then none of them is a sample. */
static inline bool account_large_counted(void)
{
    return atomic_load_explicit(&account_large_hooks, memory_order_relaxed) & ACCOUNT_TAG;
}

/* Sets or clears one bit of account_large_hooks. */
void account_large_switch(uint32_t hook, bool on);

/* Tags were switched on or off after objects were allocated: columns may hold tags of objects that are free. */
void account_switched(void);

/* Closes or opens a cache for some of ACCOUNT_*.  Under the cache list's lock. */
void account_close(struct stook_cache *cache, uint32_t parts, bool close);

/* Closes or opens a cache by whether it is watched now: it has flags for that, there is a trace, or a profile is sampled
 * and its objects are typed.  Under the cache list's lock. */
void account_watch(struct stook_cache *cache);

/* HOOKS_CACHE_MADE: computes cache->account, and closes it.  A slab with tags goes: counts frees that no hook saw. */
void account_cache_made(struct stook_cache *cache);
void account_slab_gone(const struct stook_cache *cache, const struct slab *slab);

#endif
