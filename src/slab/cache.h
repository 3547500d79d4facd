/* SPDX-License-Identifier: MIT */
/*
 * cache.h - a cache, as slabs, barns and slots know it.
 */
#ifndef STOOK_SLAB_CACHE_H
#define STOOK_SLAB_CACHE_H

#include "base/list.h"
#include "base/lock.h"
#include "percpu/rows.h"
#include "slab/layout.h"

#include <stook/inline.h>
#include <stook/stook.h>

enum { /* internal flags beside STOOK_CACHE_* */
       CACHE_INTERNAL =
           1u << 31, /* the library's own: its slabs lie in the second half of the zones */
       CACHE_MALLOC = 1u << 30, /* a size class of malloc */
       CACHE_SIZED = 1u << 27,  /* each object is asked for with a size of its own */
       CACHE_SHADOW =
           1u << 25, /* each object stands in for another cache's, and is known by its free */
       CACHE_OWN = CACHE_SHADOW | CACHE_INTERNAL | CACHE_MALLOC | CACHE_SIZED,
       /* Those of debug caches, which hooks.h leads to. */
       CACHE_DEBUG = STOOK_CACHE_DEBUG_CHECKS | STOOK_CACHE_DEBUG_RED_ZONE |
                     STOOK_CACHE_DEBUG_POISON | STOOK_CACHE_DEBUG_USER | STOOK_CACHE_DEBUG_TRACE |
                     STOOK_CACHE_DEBUG_FAIL,
       /* What becomes of their objects when they are freed is up to harden/, which hooks.h leads to. */
       CACHE_HARDENED = STOOK_CACHE_ZERO_ON_FREE | STOOK_CACHE_QUARANTINE,
       /* Their descriptors are kept for a while when they are destroyed. */
       CACHE_KEPT = CACHE_DEBUG | STOOK_CACHE_QUARANTINE,
};

/*
 * Bytes behind each object of a cache with a quarantine that harden/ checks; 0: there are none.  kmalloc's objects are
 * aligned to their size, and would take twice the room.
 */
enum { CACHE_CANARY = 8 };
static inline size_t cache_canary(unsigned flags, size_t size)
{
    return (flags & STOOK_CACHE_QUARANTINE) &&
                   (flags & (CACHE_SIZED | CACHE_MALLOC)) != CACHE_SIZED &&
                   size <= STOOK_OBJECT_SIZE_MAX - CACHE_CANARY
               ? CACHE_CANARY
               : 0;
}

/* Slabs of one cache with memory of one node. */
enum { NODE_PARKED = 4 };

struct node {
    struct lock lock; /* LOCK_NODE */
    /* Under the lock; numbers are read without it, so they are stored by relaxed atomics. */
    uint32_t nr_partial, nr_empty;
    struct list partial;     /* slabs with free objects and objects in use */
    struct list empty;       /* slabs with no object in use, kept up to the cache's min_partial */
    uint64_t gone, gone_min; /* slabs given back; of those with the minimum order */
    uint64_t took;           /* takings of the lock */
    /* Atomic, relaxed: slabs made, those with the minimum order; the most there ever were, which is for
     * reports: racy, off by a slab or two. */
    uint64_t made, made_min, peak;
    /* Atomic: pending slabs, while a fork has the lock (node_steps.h). */
    _Atomic(struct slab *) parked[NODE_PARKED];
    /* Atomic: pages that stay the cache's (runs.c), by whether a slab there has the minimum order, and tags. */
    _Atomic(struct slab *) own[4];
};

struct sheaf;

/* Full and empty sheaves of one cache on one node. */
struct barn {
    struct lock lock; /* LOCK_BARN */
    /* Under the lock, and stored by relaxed atomics: they are read without it. */
    uint32_t nr_full, nr_empty;
    uint32_t full_limit; /* now: falls while sheaves only come, rises when they are missed */
    uint32_t bounced;    /* 1: one was refused since the last miss; adaptive: how many, less misses;
                       * of a barn that keeps none it is changed without the lock: racy */
    uint32_t refused;    /* full sheaves refused in a row */
    uint64_t granted; /* of the budgets, to this barn: never less than `bytes` (sheaf/budget.h) */
    /* Under the lock. */
    struct sheaf *full, *empty;
    struct sheaf *last;                    /* of `full`, while that is not NULL */
    uint64_t get, get_fail, put, put_fail; /* full sheaves handed out, missed, taken in, refused */
    uint64_t bytes;                        /* of the objects in its full sheaves */
    uint32_t pressed; /* adaptive: misses after refusals with the limit as high as it goes */
    uint32_t starved; /* 1: the last sheaf refused was so for want of budget */
};

/* What the exchanges of a barn with CPUs tell the policy (cache/adapt.h). */
enum barn_verdict {
    BARN_CONTENT,
    BARN_WANTS_MORE, /* it misses what it refused, with its limit as high as the policy lets it go */
    BARN_WANTS_LONGER, /* none of the barn's: sheaves that change places often (sheaf/slot_steps.h) */
    BARN_WANTS_LESS,   /* of a cache that has grown: it refuses more than it is asked for */
};

/*
 * How large a cache's sheaves and barns are.  cache/adapt.c decides and writes it; sheaves, barns and
 * slots only read it, except the verdict.
 */
struct policy {
    /* Atomic; all but the verdict are written under the lock of node 0's barn. */
    uint32_t capacity;     /* objects of a new sheaf; 0, for good: no sheaves */
    uint32_t barn_limit;   /* full sheaves of a barn */
    uint32_t barn_most;    /* the same where they are missed after they were refused */
    uint32_t level;        /* adaptive: how often it has doubled what it started with */
    uint32_t fallen;       /* 1: at level 0 again, CPUs may have grown sheaves */
    uint32_t verdict;      /* enum barn_verdict, until the policy has acted on it */
    _Atomic size_t cached; /* bytes granted to its barns, and to sheaves it has grown */
    /* Under the lock of node 0's barn. */
    uint32_t base;    /* capacity as it was asked for */
    uint32_t resized; /* 1: the capacity was not always what it is */
    size_t grown;     /* of `cached`: granted to sheaves it has grown */
    /* Under the cache list's lock. */
    uint64_t seen; /* its barns' exchanges when they were last looked at … */
    uint32_t idle; /* … and how often they were the same */
    /* Constant after create. */
    size_t cached_max; /* bytes that `cached` may become (sheaf/budget.h) */
};

struct cache_node {
    struct node node __attribute__((aligned(64)));
    struct barn barn __attribute__((aligned(64)));
};

/* Why a cache's calls all take the slow path (stook_cache.closed). */
enum {
    CACHE_CLOSED_COUNTED = 1,   /* the slow path counts them */
    CACHE_CLOSED_ACCOUNTED = 2, /* objects are accounted (cache_account.parts) */
    CACHE_CLOSED_WATCHED = 4,   /* a layer above checks, samples or records them */
    /* The rest of every call goes by hooks.alloc and its like (base/hooks.h). */
    CACHE_CLOSED_HOOKS = CACHE_CLOSED_ACCOUNTED | CACHE_CLOSED_WATCHED,
};

/* How a cache's objects are accounted. */
enum {
    ACCOUNT_GROUP = 2,  /* they are charged: from the cache's creation to its end */
    ACCOUNT_TAG = 4,    /* they are counted by call site: its new slabs have the column of tags */
    ACCOUNT_OWNER = 16, /* with GROUP: all to one group, so that they have no owners */
    ACCOUNT_BOTH = ACCOUNT_GROUP | ACCOUNT_TAG,
};

/* What accounting (charge/) knows of a cache: all but `parts` is written when the cache is made or before its first
 * object, and then constant.  The core reads `parts` alone. */
struct cache_account {
    uint32_t
        owner; /* the group that all objects are charged to; 0: that of the thread that takes one */
    uint32_t charge;     /* bytes an object costs: its stride and what its columns take elsewhere */
    struct rows_two one; /* what an object counts: 1, and its charge */
    uint64_t key;        /* owners and tags are stored xor this and their object's address */
    /* Owners and tags that lie in the strides of all slabs: how far behind the object; else 0.  That lie
     * outside slabs of the preferred order: how far behind the descriptor the first does; else 0. */
    uint32_t distance[LAYOUT_TAG + 1], outside[LAYOUT_TAG + 1];
    uint32_t span;          /* bytes of a slab of the preferred order, less 1 */
    _Atomic uint32_t parts; /* ACCOUNT_*; 0: they are not.  Under the cache list's lock */
};

struct stook_cache {
    struct stook_cache_head head; /* known to stook/inline.h */
    struct layout layout;
    void (*ctor)(void *object, void *arg);
    void (*dtor)(void *object, void *arg);
    uint32_t index; /* of its slots; also its number in the page map */
    uint32_t flags;
    uint32_t min_partial;
    uint16_t secret;              /* links are stored xor this and their index */
    _Atomic uint32_t closed;      /* CACHE_CLOSED_*; 0: the head points to the cache's own slots */
    _Atomic uint32_t fast_parts;  /* `account.parts` where all of it is done by sections; else 0 */
    _Atomic uint64_t tagged;      /* bytes of slabs that have the column of tags */
    struct cache_account account; /* charge/ */
    const void *own; /* the cache's own slots: what the head has while nothing is closed */
    /* Random order: all indices of a slab of the preferred order, shuffled; NULL: in order. */
    uint16_t *permutation;
    bool alive;    /* false: it is being destroyed, or was; written under the cache list's lock */
    uint16_t pins; /* threads that reclaim from it, under the same lock: it stays meanwhile */
    /* Pending slabs (slab/node_steps.h), and objects that leave a quarantine: threads that do not use the cache
     * may have them.  A thread that empties the cache waits for 0. */
    _Atomic uint32_t pending;
    _Atomic uint32_t
        held; /* objects in the queues of a quarantine: free, though out of their slabs */
    uint64_t *stat_kept; /* counters (slab/stat.h): NULL until they are first switched on */
    int stat_mode;       /* STOOK_STATS_*; atomic */
    size_t object_size, align;
    struct list link; /* in the cache list, under its lock */
    char name[STOOK_NAME_MAX + 1];
    void *arg; /* of ctor and dtor */
    struct policy policy;
    /* Of the layers above, each with its owner: the core only tests them. */
    uint64_t *start; /* malloc/: its test of addresses (malloc/fast.h), or NULL; becomes 0 with the
                      * first slab of the minimum order */
    _Atomic uint32_t prefilled; /* reserve/: sheaves that callers hold */
    _Atomic uint32_t
        switched;    /* debug/: of its CACHE_DEBUG flags, those that are no more as `flags` says */
    uint32_t traced; /* trace/: the trace that knows it; 0: none */
    size_t slab_bytes_max;     /* SIZE_MAX: no limit; constant */
    struct cache_node nodes[]; /* one a node, up to the highest number */
};

/*
 * The capacity of a sheaf that is made now.  Sheaves of another capacity may be about for a while: for a given
 * sheaf only its own capacity counts.
 */
static inline uint32_t cache_capacity(const struct stook_cache *cache)
{
    return __atomic_load_n(&cache->policy.capacity, __ATOMIC_RELAXED);
}

static inline uint32_t cache_barn_limit(const struct stook_cache *cache)
{
    return __atomic_load_n(&cache->policy.barn_limit, __ATOMIC_RELAXED);
}

/*
 * Full sheaves that a barn may come to hold where they are missed after they were refused, as many as
 * are in flight from here at one time and not at another.
 */
static inline uint32_t cache_barn_most(const struct stook_cache *cache)
{
    return __atomic_load_n(&cache->policy.barn_most, __ATOMIC_RELAXED);
}

static inline uint32_t cache_level(const struct stook_cache *cache)
{
    return __atomic_load_n(&cache->policy.level, __ATOMIC_RELAXED);
}

/* It has grown, or CPUs may have sheaves from when it had. */
static inline bool cache_has_grown(const struct stook_cache *cache)
{
    return cache_level(cache) > 0 || __atomic_load_n(&cache->policy.fallen, __ATOMIC_RELAXED) != 0;
}

/* Why its calls go by hooks.alloc and its like: of CACHE_CLOSED_HOOKS; 0: they do not. */
static inline uint32_t cache_hooks(const struct stook_cache *cache)
{
    return atomic_load_explicit(&cache->closed, memory_order_relaxed) & CACHE_CLOSED_HOOKS;
}

/* A typed cache whose every free is checked (slab/wrong.h): its head points to slot 0 whether or not it is closed, and
 * the library's calls use its own slots. */
static inline bool cache_checks_frees(const struct stook_cache *cache)
{
    return (cache->flags & (STOOK_CACHE_OWN_PAGES | CACHE_OWN)) == STOOK_CACHE_OWN_PAGES;
}

static inline uint32_t cache_parts(const struct stook_cache *cache)
{
    return atomic_load_explicit(&cache->account.parts, memory_order_relaxed);
}

/* Index in the page map -> cache.  An entry is written before its first slab. */
extern struct stook_cache *cache_table[STOOK_CACHES_MAX] __attribute__((visibility("hidden")));

#endif
