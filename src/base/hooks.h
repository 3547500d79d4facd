/* SPDX-License-Identifier: MIT */
/*
 * hooks.h - every call that goes up.
 *
 * A layer calls only those below it.  Where a layer above has to know of something, the call goes
 * through one of these pointers, and through no other variable: scripts/check-layers.py fails on a call
 * that names a function above its caller.
 *
 * `hooks` is a constant, which each composition defines.  The whole library is face/hooks.c.  face/lean.c watches
 * nothing, and face/alone.c is the core (base to cache) on its own.  In the core only the calls within it are set.  The
 * caller tests for NULL where the comment says so.
 */
#ifndef STOOK_BASE_HOOKS_H
#define STOOK_BASE_HOOKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct arena_ask;
struct debug_finding;
struct layout_request;
struct slab;
struct stook_cache;

#define HOOKS_GROUP UINT32_MAX /* the group that the thread has entered */

/* What hooks.start() is for. */
enum hooks_start {
    HOOKS_START, /* starts the library; false: this thread is at it */
    HOOKS_SETTINGS, /* the settings were read from `environment`, at the start: may warn, starts nothing */
    HOOKS_SETTINGS_ANEW, /* … later */
    HOOKS_BEFORE_CACHES, /* the topology is known, and there is no cache; with no lock */
};

/* Work that another thread, or a handler, left to this one. */
enum hooks_due {
    HOOKS_DUE_LEFT,   /* lists of slabs, and pages, which a handler left on this thread */
    HOOKS_DUE_UPKEEP, /* what is due (CONTEXT_DUE_*, as `blocks`) in an allocation that may wait */
    HOOKS_DUE_SPAN, /* a span of so many blocks that a fork kept from being given back: false, it still does */
};

/* An allocation of n objects: of a node, or (-1) of any. */
struct hooks_call {
    struct stook_cache *cache;
    unsigned flags;
    int node;
    uint64_t where; /* the call (base/where.h); 0: the library's own, uncounted */
    uint32_t group; /* the group that pays */
    size_t n;
    void **objects; /* if the result is 0, entries may be unwritten */
};

enum hooks_cache {
    HOOKS_CACHE_MADE, /* no other thread knows it, its layout is final; under the cache list's lock */
    HOOKS_CACHE_DRAINED, /* freed objects that are held back go to their slabs */
    HOOKS_CACHE_BUSY,    /* it cannot be destroyed: which objects are in use */
    HOOKS_CACHE_GONE, /* it was destroyed: the result is memory that may be used again, or NULL */
    HOOKS_CACHE_IS_GONE, /* a call with it after it was destroyed: the report */
};

enum hooks_fork {
    HOOKS_FORK_TAKE, /* of a process with threads: the locks above the core, after all of the core's */
    HOOKS_FORK_DROP,   /* … in the parent, before the core's */
    HOOKS_FORK_RENEW,  /* … in the child */
    HOOKS_FORK_CHILD,  /* the child of any fork, when the core is in order */
    HOOKS_FORK_NESTED, /* … which a handler forked that had interrupted the library */
};

struct hooks {
    /* By init_once() on any thread, and while that runs. */
    bool (*start)(enum hooks_start phase, char *const *environment);
    /* By context_run_deferred() at depth 1, upkeep_do() and arena_free_left(), with no lock; all but the span within the
     * context. */
    bool (*due)(enum hooks_due what, void *span, size_t blocks);

    /* Whole blocks of a zone for a slab that no block holds, and the place of its descriptor: they go back by
     * arena_free().  With no lock.  NULL: there are none. */
    void *(*span)(unsigned zone, const struct arena_ask *ask, void **meta);

    /* The rest of an allocation or a free of a cache that is closed: it is accounted or watched; the group
     * is HOOKS_GROUP from the core, which does not know.  Outside the context, with no lock.  NULL in the core
     * alone, where no cache is closed for these. */
    void *(*alloc)(struct stook_cache *cache, unsigned flags, uint64_t where, uint32_t group);
    size_t (*alloc_more)(const struct hooks_call *call);
    void (*free)(struct stook_cache *cache, void *object);
    /* n objects are about to go to sheaves and slabs: entries may be NULL, and those that are refused or held
     * back become so. */
    void (*free_more)(struct stook_cache *cache, void **objects, size_t n);

    /* A finding (base/finding.h); returns if the program goes on.  Any context; locks may be held.
     * NULL: the core says one line, and aborts. */
    bool (*report)(const struct debug_finding *finding);

    /* A cache is about to be made: the flags that it gets, and, if `request` is not NULL, what these want of its
     * slabs.  Under the cache list's lock.  NULL: those that were asked for. */
    uint32_t (*cache_plan)(const char *name, uint32_t flags, struct layout_request *request);
    /* Within the context; with no lock except in HOOKS_CACHE_MADE.  NULL: nothing. */
    void *(*cache)(struct stook_cache *cache, enum hooks_cache what);
    /* A slab of a watched cache, or one with the column of tags, that no other thread can find: when it is made and
     * when it goes, and none of its objects is in use.  Within the context; barn and node locks are not held.
     * NULL: nothing. */
    void (*slab)(struct stook_cache *cache, struct slab *slab, bool made);

    /* One round of the program's callbacks for memory, with what is wanted at least: bytes that they say they
     * gave back.  `any`: there was one at all.  Outside the context, with no lock.  NULL: there is none. */
    size_t (*reclaim)(size_t wanted, bool *any);
    /* Within the context, with the locks that the phase says.  NULL: nothing. */
    void (*fork)(enum hooks_fork phase);
};
extern const struct hooks hooks __attribute__((visibility("hidden")));

/* What RCU is called for (reserve/rcu.c); within the context, with no lock. */
enum hooks_rcu {
    HOOKS_RCU_FLUSH, /* full rcu sheaves that a handler left are handed over */
    HOOKS_RCU_PUSH,  /* what waits in CPUs' rcu sheaves is handed over */
    HOOKS_RCU_WAIT,  /* … and has come back: the context may be left meanwhile, as by the next */
    HOOKS_RCU_SLABS, /* slabs of a type-stable cache have gone */
    HOOKS_RCU_SLAB, /* such a slab goes when its readers have gone; its link is the callee's meanwhile */
};

enum hooks_malloc {
    HOOKS_MALLOC_WINDOW, /* objects lie within so many bytes from the window's middle on; under the window's lock */
    HOOKS_MALLOC_CLOSES, /* calls take the slow path, HOOKS_CLOSES_*; under the cache list's lock */
};

enum {
    HOOKS_CLOSES_ALL = 1,   /* all: objects are accounted */
    HOOKS_CLOSES_ALLOC = 2, /* allocations: they are counted */
};

/* What is set while the program runs, and never cleared. */
struct hooks_set {
    /* By stook_rcu_set_ops(), once, with release. */
    void (*rcu)(enum hooks_rcu what, struct stook_cache *cache, struct slab *slab);
    /* By libstook-malloc. */
    void (*malloc)(unsigned what, size_t value); /* HOOKS_MALLOC_* */
};
extern struct hooks_set hooks_set __attribute__((visibility("hidden")));

/* NULL: the program has set no RCU. */
static inline void (*hooks_rcu(void))(enum hooks_rcu, struct stook_cache *, struct slab *)
{
    /* Pairs with the release in stook_rcu_set_ops(). */
    return __atomic_load_n(&hooks_set.rcu, __ATOMIC_ACQUIRE);
}

#endif
