/* SPDX-License-Identifier: MIT */
/*
 * cache.h - what slabs, barns and slots know of a cache.
 */
#ifndef STOOK_SLAB_CACHE_H
#define STOOK_SLAB_CACHE_H

#include "base/list.h"
#include "base/lock.h"
#include "percpu/rows.h"
#include "slab/layout.h"

#include <stook/inline.h>

enum { /* internal flags beside STOOK_CACHE_* */
       CACHE_INTERNAL =
           1u << 31, /* the library's own: its slabs lie in the second half of the zones */
       CACHE_MALLOC = 1u << 30,     /* a size class of malloc */
       CACHE_LINK_FIRST = 1u << 29, /* links a new slab first and drains it then: for comparison */
       CACHE_COLUMNS_OUTSIDE = 1u << 28, /* owners and tags in arrays outside: for comparison */
};

/* Slabs of one cache with memory of one node.  Counters and lists under `lock` (LOCK_NODE). */
enum { NODE_PARKED = 4 };

struct node {
    struct lock lock;
    uint32_t nr_partial, nr_empty;
    struct list partial;     /* slabs with free objects and objects in use */
    struct list empty;       /* slabs with no object in use, kept up to the cache's min_partial */
    uint64_t gone, gone_min; /* slabs given back; of those with the minimum order */
    uint64_t took;           /* takings of the lock */
    /* Without the lock, so relaxed atomics: slabs made, those with the minimum order; the most there
     * ever were, which is for reports: racy, off by a slab or two. */
    uint64_t made, made_min, peak;
    /* Pending slabs, while a fork has the lock (node_pending.h). */
    _Atomic(struct slab *) parked[NODE_PARKED];
};

struct sheaf;

/* Full and empty sheaves of one cache on one node, all under `lock` (LOCK_BARN). */
struct barn {
    struct lock lock;
    uint32_t nr_full, nr_empty;
    uint32_t full_limit; /* now: falls while sheaves only come, rises when they are missed */
    uint32_t refused;    /* full sheaves refused in a row */
    uint32_t bounced; /* 1: one was refused since the last miss; adaptive: how many, less misses */
    struct sheaf *full, *empty;
    uint64_t get, get_fail, put, put_fail; /* full sheaves handed out, missed, taken in, refused */
    uint64_t bytes;                        /* of the objects in its full sheaves */
    uint64_t granted; /* of the budgets, to this barn: never less (sheaf/budget.h) */
    uint32_t pressed; /* adaptive: misses after refusals with the limit as high as it goes */
    uint32_t starved; /* 1: the last sheaf refused was so for want of budget */
};

struct cache_node {
    struct node node __attribute__((aligned(64)));
    struct barn barn __attribute__((aligned(64)));
};

/* Why a cache's calls all go the slow way (stook_cache.closed). */
enum {
    CACHE_CLOSED_STAT = 1,   /* they are counted */
    CACHE_CLOSED_GROUP = 2,  /* objects are charged: from the cache's creation to its end */
    CACHE_CLOSED_TAG = 4,    /* objects are counted by call site */
    CACHE_CLOSED_TRACE = 8,  /* objects that are handed out and come back are recorded */
    CACHE_CLOSED_OWNER = 16, /* with GROUP: all to one group, so that they have no owners */
    CACHE_CLOSED_BOTH = CACHE_CLOSED_GROUP | CACHE_CLOSED_TAG,
    /* Of these every call asks the hooks (account/account.h). */
    CACHE_CLOSED_ACCOUNT = CACHE_CLOSED_BOTH | CACHE_CLOSED_TRACE,
};

struct stook_cache {
    struct stook_cache_head head; /* known to stook/inline.h */
    struct layout layout;
    void (*ctor)(void *object, void *arg);
    void (*dtor)(void *object, void *arg);
    uint32_t index; /* of its slots; also its number in the page map */
    uint32_t flags;
    /* These change while threads run: cache_capacity(), cache_barn_limit(), cache_level(). */
    uint32_t capacity;   /* objects of a new sheaf; 0, for good: no sheaves */
    uint32_t barn_limit; /* full sheaves of a barn, but see barn_most() */
    uint32_t level;      /* adaptive: how often it has doubled what it started with */
    uint32_t base;       /* capacity as it was asked for; under the lock of node 0's barn */
    uint32_t resized;    /* 1: the capacity was not always what it is; under the same lock */
    uint32_t min_partial;
    uint32_t
        defrag_ratio; /* percent of cases in which other nodes' partial slabs come before new */
    uint16_t secret;  /* links are stored xor this and their index */
    _Atomic uint32_t closed; /* CACHE_CLOSED_*; 0: the head points to the cache's own slots */
    _Atomic uint32_t way;    /* `closed` where that is for accounting alone, by sections; else 0 */
    _Atomic uint64_t tagged; /* bytes of slabs that have the column of tags */
    uint32_t
        owner; /* the group that all objects are charged to; 0: that of the thread that takes one */
    uint32_t charge;     /* bytes an object costs: its stride and what its columns take elsewhere */
    struct rows_two one; /* what an object counts: 1, and its charge */
    uint64_t key;        /* owners and tags are stored xor this and their object's address */
    /* Owners and tags that lie in the strides of all slabs: how far behind the object; else 0.  That lie
     * outside slabs of the preferred order: how far behind the descriptor the first does; else 0. */
    uint32_t beside[LAYOUT_TAG + 1], outside[LAYOUT_TAG + 1];
    uint64_t
        *start;    /* malloc's test of addresses (malloc/fast.h), or NULL; becomes 0 with the first
                      * slab of the minimum order */
    uint32_t span; /* bytes of a slab of the preferred order, less 1 */
    const void *own; /* the cache's own slots: what the head has while nothing is closed */
    /* Random order: all indices of a slab of the preferred order, shuffled; NULL: in order. */
    uint16_t *permutation;
    uint16_t users; /* creates less destroys, under the cache list's lock; 0: it is going */
    uint16_t pins;  /* threads that reclaim from it, under the same lock: it stays meanwhile */
    _Atomic uint32_t prefilled; /* sheaves that callers hold */
    /* Counters (slab/stat.h): NULL while off; kept when they are switched off; STOOK_STATS_*. */
    uint64_t *stat, *stat_kept;
    int stat_mode;
    size_t object_size, align;
    struct list link; /* in the cache list, under its lock */
    char name[STOOK_NAME_MAX + 1];
    size_t cached_max;     /* bytes for `cached` (sheaf/budget.h) */
    _Atomic size_t cached; /* granted to its barns, and to sheaves it has grown */
    size_t grown;          /* of `cached`: the latter; under the lock of node 0's barn */
    uint32_t fallen;       /* 1: at level 0 again, CPUs may have grown sheaves; the same lock */
    uint64_t seen;         /* adaptive: its barns' exchanges when they were last looked at … */
    uint32_t idle;         /* … and how often they were the same; under the cache list's lock */
    void *arg;             /* of ctor and dtor */
    uint32_t traced;       /* the trace that knows it (account/trace.c); 0: none */
    struct cache_node nodes[]; /* one a node, up to the highest number */
};

/*
 * What a sheaf that is made now gets.  Sheaves of another capacity may be about for a while: what can
 * be done with a given one, only its own says.
 */
static inline uint32_t cache_capacity(const struct stook_cache *cache)
{
    return __atomic_load_n(&cache->capacity, __ATOMIC_RELAXED);
}

static inline uint32_t cache_barn_limit(const struct stook_cache *cache)
{
    return __atomic_load_n(&cache->barn_limit, __ATOMIC_RELAXED);
}

static inline uint32_t cache_level(const struct stook_cache *cache)
{
    return __atomic_load_n(&cache->level, __ATOMIC_RELAXED);
}

/* It has grown, or CPUs may have sheaves from when it had. */
static inline bool cache_has_grown(const struct stook_cache *cache)
{
    return cache_level(cache) > 0 || __atomic_load_n(&cache->fallen, __ATOMIC_RELAXED) != 0;
}

/* Index in the page map -> cache.  An entry is written before its first slab. */
extern struct stook_cache *cache_table[STOOK_CACHES_MAX] __attribute__((visibility("hidden")));

#endif
