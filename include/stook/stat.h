/* SPDX-License-Identifier: MIT */
/*
 * stat.h - counters of caches, and the objects and bytes of each call site that allocates (docs/profile.md).
 *
 * Counters are under the names of Linux's /sys/kernel/slab/NAME/ where
 * these have a meaning here, and some of our own (docs/statistics.md).
 *
 * Counting is off until it is switched on, per cache and while threads run.  While it is off, it costs
 * nothing on the fast path and one predictable test at each event beyond it.
 */
#ifndef STOOK_STAT_H
#define STOOK_STAT_H

#include <stook/stook.h>

#include <stddef.h>
#include <stdint.h>

STOOK_C_BEGIN

/* ---- counters ------------------------------------------------------------------------------- */

/*
 * Every counter: its name, and the events or objects that it counts.  New ones are only added at the end;
 * CONTRIBUTING.md says what else they need.
 */
#define STOOK_STAT_EVENTS(X)                                                                       \
    /* The first four are the fast path's: counted only with STOOK_STATS_ALL. */                   \
    X(alloc_fastpath, "objects handed out by sheaves and the barn, no slab touched")               \
    X(free_fastpath, "objects taken in by sheaves and the barn, no slab touched")                  \
    X(alloc_cpu_sheaf, "of alloc_fastpath: straight from the main sheaf")                          \
    X(free_cpu_sheaf, "of free_fastpath: straight onto the main sheaf")                            \
    X(alloc_slowpath, "objects handed out by calls that had to touch slabs for them")              \
    X(free_slowpath, "objects taken in by calls that had to touch slabs for them")                 \
    X(alloc_slab, "slabs made")                                                                    \
    X(free_slab, "slabs given back")                                                               \
    X(order_fallback, "of alloc_slab: with the minimum order, since memory is fragmented")         \
    X(alloc_from_partial, "partial slabs whose free objects were all taken, under the list lock")  \
    X(alloc_from_empty, "slabs kept empty that were used again")                                   \
    X(free_add_partial, "slabs put onto the list of partial slabs")                                \
    X(free_remove_partial, "slabs that emptied and left the list of partial slabs")                \
    X(cmpxchg_double_fail, "changes of a slab's state word that were tried again")                 \
    X(sheaf_refill, "objects that refills brought from slabs into a sheaf or to the caller")       \
    X(sheaf_flush, "objects of sheaves that went back to slabs")                                   \
    X(sheaf_swap, "changes of main and spare sheaf")                                               \
    X(sheaf_alloc, "sheaves made")                                                                 \
    X(sheaf_free, "sheaves given back")                                                            \
    X(barn_get, "full sheaves taken from a barn")                                                  \
    X(barn_get_fail, "times that a barn was asked for a full sheaf and had none")                  \
    X(barn_put, "full sheaves put into a barn")                                                    \
    X(barn_put_fail, "full sheaves that a barn refused")                                           \
    X(sheaf_prefill_fast, "prefilled sheaves made of a CPU's spare one")                           \
    X(sheaf_prefill_slow, "prefilled sheaves from a barn, or new")                                 \
    X(sheaf_prefill_oversize, "prefilled sheaves beyond the cache's capacity")                     \
    X(sheaf_return_fast, "prefilled sheaves that became a CPU's spare one")                        \
    X(sheaf_return_slow, "prefilled sheaves returned to barn or slabs")                            \
    X(free_rcu_sheaf, "objects deferred in an rcu sheaf")                                          \
    X(free_rcu_sheaf_fail, "objects deferred without an rcu sheaf")                                \
    /* Ours.  Distance of the CPU's node from the lock's: near is below 20, far from there on. */  \
    X(barn_lock_own, "acquisitions of a barn's lock by CPUs of its own node")                      \
    X(barn_lock_near, "acquisitions of a barn's lock from a near node")                            \
    X(barn_lock_far, "acquisitions of a barn's lock from a far node")                              \
    X(list_lock_own, "acquisitions of a node's list lock by CPUs of its own node")                 \
    X(list_lock_near, "acquisitions of a node's list lock from a near node")                       \
    X(list_lock_far, "acquisitions of a node's list lock from a far node")                         \
    X(lock_busy, "locks that a thread only tried, and that were held")                             \
    X(remote_free, "objects of other nodes that were gathered for their owner")                    \
    X(remote_put, "sheaves of such objects that reached the owner's barn")                         \
    X(remote_put_fail, "sheaves of such objects that the owner's barn refused")                    \
    X(capacity_grow, "times that an adaptive cache grew its sheaves")                              \
    X(capacity_shrink, "times that an adaptive cache shrank its sheaves")

/*
 * Switch the counting of a cache's events.
 *
 * STOOK_STATS_SLOW counts all but the four events of the fast path, which stays as it is.  Safe beside any
 * other call: no object is lost; threads in a loop of inlined calls may notice late.  STOOK_STATS=1 (or
 * slow) in the environment switches it for all caches from the start; ignored with raised privileges.  The size
 * classes of libstook-malloc never count more than STOOK_STATS_SLOW.
 *
 * errors:  EINVAL   `on` is none of the three; the cache was destroyed
 *          ENOMEM   out of memory for the counters: 512 bytes a CPU that the machine may have
 * context: not in a signal handler
 * locks:   cache list
 * cost:    with STOOK_STATS_ALL some 20 ns an allocation and a free
 */
#define STOOK_STATS_OFF 0  /* nothing; what was counted stays readable */
#define STOOK_STATS_ALL 1  /* all events */
#define STOOK_STATS_SLOW 2 /* all but the fast path's */
STOOK_API int stook_cache_stat_enable(struct stook_cache *cache, int on) STOOK_NONNULL(1);

/*
 * Read all counters of a cache.
 *
 * They are sums over all CPUs, zeros if nothing was ever counted.  The caller sets stat->size to
 * sizeof(*stat).  If other threads count while the counters are cleared, their events may stay or not.
 *
 * errors:  EINVAL   stat->size is not a sizeof; the cache was destroyed
 * context: any
 * locks:   none
 * cost:    a load a CPU and counter
 */
struct stook_stat {
    size_t size;
    uint64_t cached_bytes;     /* what counts against the budget (stook_cached_bytes_set_max()) */
    uint64_t cached_bytes_max; /* its budget; STOOK_UNLIMITED: none of its own */
#define STOOK_STAT_FIELD(name, what) uint64_t name;
    STOOK_STAT_EVENTS(STOOK_STAT_FIELD)
#undef STOOK_STAT_FIELD
};
STOOK_API int stook_cache_stat(struct stook_cache *cache, struct stook_stat *stat)
    STOOK_NONNULL(1, 2);

/*
 * Read what a cache holds.
 *
 * The numbers are those of its row in the report (docs/report.md), and need no counting.  The caller sets usage->size to
 * sizeof(*usage).  Objects that other threads allocate or free meanwhile may be counted on either side.
 *
 * errors:  EINVAL   usage->size is not a sizeof; the cache was destroyed
 *          EDEADLK  called by a handler that interrupted the library
 * context: not in a signal handler; beside any other call
 * locks:   cache list, barns and nodes, in turn
 * cost:    some loads a CPU, a full sheaf and a partial slab: about a microsecond
 */
struct stook_cache_usage {
    size_t size;
    uint64_t in_use;     /* objects that the program has */
    uint64_t cached;     /* free objects in sheaves, of CPUs and barns, and in a quarantine */
    uint64_t free;       /* free objects in slabs */
    uint64_t slabs;      /* with those that are kept empty */
    uint64_t bytes;      /* of the pages of these slabs */
    uint64_t bytes_peak; /* the most so far */
    uint64_t meta;     /* bytes of the slabs' descriptors, and of columns outside of these pages */
    uint64_t capacity; /* objects that a new sheaf holds; 0: the cache has no sheaves */
};
STOOK_API int stook_cache_usage(struct stook_cache *cache, struct stook_cache_usage *usage)
    STOOK_NONNULL(1, 2);

/* ---- call sites ----------------------------------------------------------------------------- */

/*
 * Where the memory goes: the objects and bytes of every call site that allocates.
 *
 * A site is a call of stook_alloc() and its like, or of malloc, known by the address that it returns to;
 * by file, function and line where the program defines STOOK_SITES (stook/stook.h).  Each
 * gets a number, its tag, which is written beside every object that is allocated there; a thread that frees
 * an object subtracts it from its site.  Sums are exact: objects and bytes, by CPU, without a lock.
 *
 * Tags are off until they are switched on, per cache or for all, while the program runs.
 * `stook profile` does it for a program as it is, and reads what stook_profile_write() writes
 * (docs/profile.md).
 *
 * Environment, read once at start, ignored with raised privileges:
 *   STOOK_TAGS=1               tags for all caches from the start, those of malloc included
 *   STOOK_PROFILE=FILE         the profile, at the process's end; %p becomes the process number, %%
 *                              a percent sign; an existing file is replaced, a symbolic link is refused
 *   STOOK_PROFILE=USR2,FILE    besides, FILE.1, FILE.2, … at each such signal
 */

/* The largest tag; objects that are allocated at further sites have none. */
#define STOOK_TAGS_MAX 65535u
/* Bytes of a file's or function's name that are kept: a file's last ones, a function's first. */
#define STOOK_TAG_NAME_MAX 511u

/*
 * Switch tags of a cache on (1) or off (0).
 *
 * NULL: of all caches, also later ones and malloc's.  Slabs that were made before have no room for tags:
 * their objects stay untagged; the profile says how many bytes are covered.  While tags are off neither allocations nor frees are
 * counted.  An object that is freed meanwhile counts as live at its site until its place is used again
 * while tags are on, or until its slab is returned.  Safe beside any other call.
 *
 * errors:  EINVAL   `on` is neither; the cache was destroyed
 *          ENOMEM   out of memory
 * context: not in a signal handler
 * locks:   cache list
 * cost:    none while off; on: docs/profile.md; calls that are inlined become calls
 */
STOOK_API int stook_tags_enable(struct stook_cache *cache, int on);

/*
 * Read the numbers of a call site.
 *
 * The caller sets stat->size to sizeof(*stat).  Each number includes all that happened before the call.  An
 * event of another thread meanwhile may be in one number and not in the next.
 *
 * errors:  EINVAL   stat->size is not a sizeof
 *          ENOENT   there is no such tag
 * context: any
 * locks:   none
 * cost:    four loads a CPU
 */
struct stook_tag_stat {
    size_t size;
    /* The library's strings, valid for good.  NULL for a site that is known by its address. */
    const char *file, *function;
    uint64_t address; /* the instruction behind the call; 0 for a site that is known by its line */
    uint64_t line;
    /* Bytes are what an object takes in its slab: its stride. */
    uint64_t live_objects, live_bytes;   /* allocated there and not freed yet */
    uint64_t total_objects, total_bytes; /* allocated there since tags were first on */
};
STOOK_API int stook_tag_stat(unsigned tag, struct stook_tag_stat *stat) STOOK_NONNULL(2);

/*
 * The tag after another one.
 *
 * 0 gives the first.
 *
 * returns: the tag, or 0 after the last
 * context: any
 * locks:   none
 */
STOOK_API unsigned stook_tag_next(unsigned tag);

/*
 * The tag of a live object.
 *
 * returns: the tag; 0 if the object has none.  If the object was allocated while tags were off, or is not
 *          live: 0, or the tag of the last object there
 * context: any
 * locks:   none
 */
STOOK_API unsigned stook_tag_of(const void *object);

/*
 * Write the profile as one JSON document (docs/profile.md).
 *
 * It has all sites, the mappings of the process, and the build IDs.  `stook profile` reads it on this machine or on
 * another one that has the same programs.  The call needs no memory.
 *
 * errors:  as write(2)
 * context: any; in a handler that interrupted the library the sums of all caches are null
 * locks:   in a handler none; else all but slots, in turn
 */
STOOK_API int stook_profile_write(int fd);

STOOK_C_END

#endif /* STOOK_STAT_H */
