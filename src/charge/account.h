/* SPDX-License-Identifier: MIT */
/*
 * account.h - the hooks of alloc and free: what is charged to whom, what is counted for which call
 * site, and where an object keeps both.
 *
 * A cache without hooks never comes here: the calls of one with hooks all go the slow way
 * (stat_close), which asks cache_hooks() first.  The owner and the tag of an object are 8 bytes
 * each in its slab's columns (slab/column.h); they mean something while the object is handed out, so
 * what sheaves and reserves hold is nobody's.
 *
 *   alloc:  account_begin (charges; may refuse), objects are taken, account_end (writes the columns)
 *   free:   account_clear (reads the columns, gives the charge back), objects go
 *
 * They also tell the trace (trace/trace.h) what its caches' users get and give.
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

/* One call's: the group charged and the tag, 0 for none; whether it is recorded, which calls from
 * the library for itself are not. */
struct account {
    uint32_t group, tag;
    bool traced;
};

/* The group that pays: a number, or the one that the thread entered, or none: for reserves. */
#define ACCOUNT_CURRENT HOOKS_GROUP
#define ACCOUNT_NOBODY 0u

/*
 * Charges n objects.  False, with nothing charged: errno EDQUOT at a limit, ENOMEM.  Outside the
 * context, without locks.
 */
bool account_begin(const struct stook_cache *cache, struct account *account, size_t n,
                   unsigned flags, uint64_t where, uint32_t group);

/* Writes owner and tag of the `got` objects that were taken, and returns the charge of the rest. */
void account_end(const struct stook_cache *cache, const struct account *account,
                 void *const *objects, size_t got, size_t n);

/* An object goes to a reserve, charged as it is: checked as if it were freed, and NULL if it is refused.  It is handed out
 * again by the call at `where`. */
void account_reserve(const struct stook_cache *cache, void **object);
void account_unreserve(const struct stook_cache *cache, void *object, uint64_t where);

/* An object that is charged already is taken by the call at `where`, which is counted. */
void account_retag(const struct stook_cache *cache, const void *object, uint64_t where);

/*
 * Before n objects go: returns their charges and counts them.  NULL entries are skipped; what is no
 * object of the cache gets the report.  Entries become NULL that are not to go: of a debug cache, what was
 * reported.  Any context; errno is kept.
 */
void account_clear(const struct stook_cache *cache, void **objects, size_t n);
/* The same of objects that go to the cache: entries that a quarantine holds back become NULL, too. */
void account_free(struct stook_cache *cache, void **objects, size_t n);
/* The same of an object that goes when its readers have gone. */
void account_defer(const struct stook_cache *cache, void **object);
/* The same of objects that a reserve had and no user: no trace knows of them. */
void account_return(const struct stook_cache *cache, void **objects, size_t n);

/*
 * Large objects (large/large.h), which have a note each.  A new one, charged to `owner` (0: nobody):
 * false with errno, nothing charged, and it was not allocated as far as anybody knows.
 * One that was resized in place from `had` bytes: false, and it must get its old size back; one that
 * goes.
 */
bool account_large(void *object, uint32_t owner, unsigned flags, uint64_t where);
bool account_large_resized(void *object, size_t had, unsigned flags);
void account_large_clear(void *object);
/* `moved` is what `object`, of `had` bytes, has become since `time` (trace_time()). */
void account_large_moved(void *object, void *moved, size_t had, uint64_t time);

/* The group that malloc's objects are charged to; CACHE_CLOSED_TAG and _TRACE: what large objects are
 * accounted by besides.  Written at start, or when tags or a trace are switched. */
extern uint32_t account_process __attribute__((visibility("hidden")));
extern _Atomic uint32_t account_large_hooks __attribute__((visibility("hidden")));

/* Large objects are counted by call site, and are no samples. */
static inline bool account_large_counted(void)
{
    return atomic_load_explicit(&account_large_hooks, memory_order_relaxed) & CACHE_CLOSED_TAG;
}

/* Switches one of these. */
void account_large_switch(uint32_t hook, bool on);

/* Tags were switched on or off after objects were allocated. */
void account_switched(void);

/* Where a profile is sampled a typed cache is closed, since its allocations count: from then on to its end. */
void account_watch(struct stook_cache *cache);

/* hooks.cache_made, hooks.tagged_slab_gone */
void account_cache_made(struct stook_cache *cache);
void account_slab_gone(const struct stook_cache *cache, const struct slab *slab);

#endif
