/* SPDX-License-Identifier: MIT */
/*
 * hooks.h - every call that goes up.
 *
 * A layer calls only those below it.  Where a layer above has to know of something, the call goes
 * through one of these pointers, and through no other variable: scripts/check-layers.py fails on a call
 * that names a function above its caller.
 *
 * `hooks` is a constant.  Two files define it: face/hooks.c for the library (and, compiled with STOOK_SIM, for the
 * composition with simulated machines), face/alone.c for the core (base to cache) on its own, where only the calls
 * within the core are set.  The caller tests for NULL
 * where the comment says so.
 */
#ifndef STOOK_BASE_HOOKS_H
#define STOOK_BASE_HOOKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct debug_finding;
struct layout_request;
struct slab;
struct stook_cache;

#define HOOKS_GROUP UINT32_MAX /* the group that the thread has entered */

struct hooks {
    /* ---- within the core: never NULL ---- */

    /* Starts the library; by init_once(), on any thread, with no lock.  False: this thread is at it. */
    bool (*start)(void);
    /* List work of slabs that a signal handler left behind on this thread.  By context_settle(), at depth
     * 1, with no lock. */
    void (*settle_slabs)(struct slab *slab);

    /* ---- large objects (large/): NULL in the core alone, which has none ---- */

    /* The same of large objects to be freed. */
    void (*settle_large)(void);
    /* A span that a fork kept from being given back: false, it still does.  By arena_free_left(), with
     * no lock. */
    bool (*span_free_now)(void *span, size_t blocks);

    /* ---- accounting (charge/): NULL in the core alone, where no cache is closed for it ---- */

    /* The rest of an allocation or a free of a cache that is closed by CACHE_CLOSED_ACCOUNT; `where` is
     * the call (base/where.h), `group` who pays: HOOKS_GROUP from the core, which does not know.  Outside
     * the context, with no lock. */
    void *(*alloc)(struct stook_cache *cache, unsigned flags, uint64_t where, uint32_t group);
    void *(*alloc_node)(struct stook_cache *cache, unsigned flags, unsigned node, uint64_t where);
    size_t (*alloc_bulk)(struct stook_cache *cache, unsigned flags, size_t n, void **objects,
                         uint64_t where);
    void (*free)(struct stook_cache *cache, void *object);
    /* n objects are about to go to sheaves and slabs: entries may be NULL, and those that are refused or held
     * back become so.  As above. */
    void (*free_bulk)(struct stook_cache *cache, void **objects, size_t n);

    /* ---- hardening (harden/): NULL in the core alone ---- */

    /* Objects of the cache that were freed and are held back go to their slabs.  Within the context, with no
     * lock. */
    void (*held_back)(struct stook_cache *cache);
    /* A slab of a cache with a quarantine goes, none of its objects is out.  Within the context, with no lock but
     * perhaps the cache list's. */
    void (*held_slab_gone)(const struct stook_cache *cache, const struct slab *slab);

    /* ---- debugging (debug/): NULL in the core alone, where no cache has debug flags ---- */

    /* Reports what was found wrong (base/finding.h), and returns if the program goes on.  Any context; locks may
     * be held.  NULL: the core says one line, and aborts. */
    bool (*report)(const struct debug_finding *finding);
    /* The debug flags of a cache that is made with `asked`.  Under the cache list's lock. */
    uint32_t (*debug_flags)(const char *name, uint32_t asked);
    /* What a cache with debug flags wants of its slabs.  As above. */
    void (*debug_plan)(uint32_t flags, struct layout_request *request);
    /* A slab of such a cache that no other thread can find, when it is made and when it goes.  Within the
     * context, with no lock but perhaps the cache list's. */
    void (*debug_slab_made)(const struct stook_cache *cache, struct slab *slab);
    void (*debug_slab_gone)(const struct stook_cache *cache, struct slab *slab);
    /* Reports the objects of a debug cache that keep it from being destroyed.  One that is destroyed, also one with a
     * quarantine: the memory that may be used again, perhaps of another one, or NULL.  Within the context, with no
     * lock. */
    void (*debug_busy)(struct stook_cache *cache);
    void *(*debug_destroyed)(struct stook_cache *cache);
    /* Whether the cache was destroyed before, which is reported. */
    bool (*debug_is_gone)(const struct stook_cache *cache);

    /* The settings were read from this environment, NULL: from none; `start`: by the start of the process.
     * May warn, and calls none of settings.h that starts.  NULL: nothing is said. */
    void (*settings_read)(char *const *environment, bool start);
    /* Once, when the topology is known and there is no cache: the CACHE_CLOSED_* that every cache is
     * closed by from its creation.  NULL: none. */
    uint32_t (*before_caches)(void);
    /* A cache that is being made and that no other thread knows; its layout is final.  Under the cache
     * list's lock.  NULL: nothing. */
    void (*cache_made)(struct stook_cache *cache);
    /* A slab with the column of tags goes back, none of its objects is in use.  Within the context;
     * barn and node locks are not held.  NULL: nothing. */
    void (*tagged_slab_gone)(const struct stook_cache *cache, const struct slab *slab);

    /* One round of the program's callbacks for memory, with what is wanted at least: bytes that they say they
     * gave back.  `any`: there was one at all.  Outside the context, with no lock.  NULL: there is none. */
    size_t (*reclaim)(size_t wanted, bool *any);
    /* CPUs may have come or gone: an allocation that may wait scans for them.  Within the context, with no
     * lock.  NULL: nothing. */
    void (*scan)(void);

    /* fork() of a process with threads: take the locks above the core, after all of the core's; drop
     * them, before; make them anew in the child.  NULL: none. */
    void (*fork_take)(void);
    void (*fork_drop)(void);
    void (*fork_renew)(void);
    /* The child, when the core is in order; `nested`: a handler forked that had interrupted the library.
     * Within the context, with no lock.  NULL: nothing. */
    void (*fork_child)(bool nested);
};
extern const struct hooks hooks __attribute__((visibility("hidden")));

/* Why objects and slabs are given up without being free yet (reserve/rcu.c). */
enum hooks_deferred {
    HOOKS_DEFERRED_PUSH,  /* what waits in CPUs' rcu sheaves is handed to RCU */
    HOOKS_DEFERRED_WAIT,  /* … and has come back */
    HOOKS_DEFERRED_SLABS, /* slabs of a type-stable cache have gone */
};

struct hooks_rcu {
    /* Full rcu sheaves that a handler left are handed over.  By context_settle(), as above. */
    void (*settle)(void);
    /* A slab of a type-stable cache, which goes when its readers have gone.  Its link is the callee's
     * meanwhile.  With no lock. */
    void (*defer_slab)(struct stook_cache *cache, struct slab *slab);
    /* By cache_drain(), stook_cache_destroy() and the explicit calls of hotplug.c; within the context,
     * which it may leave meanwhile, with no lock. */
    void (*deferred)(struct stook_cache *cache, enum hooks_deferred what);
};

enum {
    HOOKS_CLOSES_ALL = 1,   /* all: objects are accounted */
    HOOKS_CLOSES_ALLOC = 2, /* allocations: they are counted */
};

/* What is set while the program runs, and never cleared. */
struct hooks_set {
    /* By stook_rcu_set_ops(), once, with release. */
    const struct hooks_rcu *rcu;
    /* By libstook-malloc: objects of the program lie within so many bytes from the window's middle on.
     * Under the window's lock. */
    void (*window_grew)(size_t bytes);
    /* By libstook-malloc: which of its calls take the slow path, HOOKS_CLOSES_*.  Under the cache list's lock. */
    void (*malloc_closes)(unsigned closed);
};
extern struct hooks_set hooks_set __attribute__((visibility("hidden")));

/* NULL: the program has set no RCU. */
static inline const struct hooks_rcu *hooks_rcu(void)
{
    /* Pairs with the release in stook_rcu_set_ops(). */
    return __atomic_load_n(&hooks_set.rcu, __ATOMIC_ACQUIRE);
}

#endif
