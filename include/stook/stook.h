/* SPDX-License-Identifier: MIT */
/*
 * stook.h - typed object caches with per-CPU sheaves and per-node barns.
 *
 * The way of an object:
 *
 *   stook_alloc -> main sheaf -> spare sheaf -> barn -> partial slabs -> new slab -> arena -> OS
 *   stook_free  -> main sheaf -> spare sheaf -> barn -> detached freelists -> slab -> arena -> OS
 *
 * A cache holds objects of one type (Bonwick, "The Slab Allocator", USENIX 1994); the per-CPU and
 * per-node layers follow Linux's sheaves and barns (mm/slub.c) and Bonwick's magazines and depot
 * ("Magazines and Vmem", USENIX 2001).
 *
 * Conventions of every call below:
 *  - sizes are bytes;
 *  - functions returning int give 0, or -1 with errno set;
 *  - every call may be made from any thread; what a signal handler or a forked child may call is
 *    said under "context";
 *  - after vfork() or clone(CLONE_VM) a child may call nothing of this (as of any malloc): it may
 *    only exec or exit.  posix_spawn() is fine.
 *  - a handler that interrupted a call of this library must return: longjmp() out of it would
 *    leave a CPU's slot closed.
 */
#ifndef STOOK_STOOK_H
#define STOOK_STOOK_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

#define STOOK_VERSION_MAJOR 0
#define STOOK_VERSION_MINOR 1
#define STOOK_VERSION_PATCH 0

#if defined(__GNUC__)
#define STOOK_API __attribute__((visibility("default")))
#define STOOK_NONNULL(...) __attribute__((nonnull(__VA_ARGS__)))
#define STOOK_WARN_UNUSED __attribute__((warn_unused_result))
#else
#define STOOK_API
#define STOOK_NONNULL(...)
#define STOOK_WARN_UNUSED
#endif

/* Limits.  A request beyond one of them fails with the errno named at stook_cache_create(). */
#define STOOK_CACHES_MAX 4096u /* caches alive at one time, the library's own included */
#define STOOK_OBJECT_SIZE_MAX (256u << 10) /* largest object of a cache */
#define STOOK_ALIGN_MAX 4096u              /* largest alignment of a cache's objects */
#define STOOK_SLAB_OBJECTS_MAX 32767u      /* objects in one slab */
#define STOOK_SHEAF_CAPACITY_MAX 1022u     /* objects in one sheaf */
#define STOOK_NAME_MAX 63u                 /* bytes of a cache's name that are kept */

/* What the caller of an allocation can bear.  0 means STOOK_WAIT. */
#define STOOK_WAIT 0x0u   /* may ask the OS for memory, run reclaim callbacks, wait for a pool */
#define STOOK_NOWAIT 0x1u /* takes locks and may ask the OS, but runs no reclaim */
#define STOOK_NOSPIN 0x2u /* takes no lock that another context may hold; may fail: for handlers */
#define STOOK_ZERO 0x4u   /* the object is filled with zeros; EINVAL with a constructor */
#define STOOK_THISNODE 0x40u /* stook_alloc_node(): rather none than one of another node */

/* Flags of a cache (stook_cache_args.flags). */
#define STOOK_CACHE_HWALIGN 0x1u /* align objects to cache lines (64 bytes) */
#define STOOK_CACHE_MERGE 0x2u   /* may share slabs with another cache of the same layout */
#define STOOK_CACHE_NOSHEAF 0x4u /* no per-CPU sheaves: every call goes to the slabs */
/*
 * A new slab's objects are handed out in a random order, so that what lies behind an object cannot
 * be foretold (as Linux's CONFIG_SLAB_FREELIST_RANDOM).  STOOK_RANDOM=1 in the environment sets it
 * for all caches.
 */
#define STOOK_CACHE_RANDOM 0x8u
/*
 * Where the links of free objects live.  By default outside, in an array of 16 bits an object,
 * from 48 bytes on; inside the free objects below.  INSIDE saves these bytes and costs a cache miss
 * for each cold object freed; not with a constructor.  OUTSIDE costs them for tiny objects too.
 */
#define STOOK_CACHE_LINK_INSIDE 0x10u
#define STOOK_CACHE_LINK_OUTSIDE 0x20u
/*
 * Type-stable memory: what was an object stays one, free or of the next user, for whoever looks at
 * it inside a read-side section of the RCU that was set (as Linux's SLAB_TYPESAFE_BY_RCU).  Slabs
 * go back only after a grace period; links lie outside, never in free objects.  Needs
 * stook_rcu_set_ops() first.
 */
#define STOOK_CACHE_TYPESAFE 0x40u
/*
 * The cache grows its sheaves and its barns' limits where its barns miss what they had refused before,
 * within its budget and the process's (below), and goes back when it idles (docs/capacity.md).
 * STOOK_ADAPTIVE=1 in the environment sets it for all caches but those with STOOK_CACHE_NOSHEAF,
 * with which it cannot go; ignored with raised privileges.
 */
#define STOOK_CACHE_ADAPTIVE 0x80u
/*
 * Objects are charged to the group of whoever takes them (stook/group.h): 8 bytes of each say which,
 * where they cost no memory if there is such a place (docs/columns.md).
 */
#define STOOK_CACHE_ACCOUNT 0x100u

struct stook_cache;

/*
 * Arguments of a cache.  `size` is sizeof(struct stook_cache_args) as the caller knows it, so that
 * the struct can grow; every other field may be zero, which means "default".
 */
struct stook_cache_args {
    size_t size;
    size_t align; /* power of two up to STOOK_ALIGN_MAX; 0: 8, or 16 from 16 bytes on */
    void (*ctor)(void *object); /* runs once per object when its slab is made */
    void (*dtor)(void *object); /* runs once per object when its slab goes */
    unsigned flags;             /* STOOK_CACHE_* */
    unsigned sheaf_capacity;    /* objects a sheaf; 0: from the object's size */
    size_t cached_bytes_max; /* its barns hold no more; 0: 8 MiB if adaptive, else no bound but the
                                   process's and the barns' own limits, 1 MiB or two sheaves a node */
};

/*
 * Make a cache of objects of `object_size` bytes.  `name` is copied (cut after STOOK_NAME_MAX
 * bytes); it need not be unique.  `args` may be NULL and is not kept.  Objects are constructed
 * once, when their slab is made; they must be freed in constructed state and come back so.  A
 * constructor or destructor may use other caches.  Caches
 * with STOOK_CACHE_MERGE, no constructor and the same layout and flags share one set of slabs, unless
 * they ask for a capacity or a budget: each call returns a cache that must be destroyed once.
 *
 * errors:  EINVAL   object_size 0, align no power of two, unknown flags or both of LINK_*, links
 *                   inside with a constructor or TYPESAFE, ADAPTIVE with NOSHEAF, args->size too small or with non-zero bytes this
 *                   version does not know, name NULL
 *          E2BIG    object_size or align or sheaf_capacity beyond its limit
 *          ENFILE   STOOK_CACHES_MAX caches alive
 *          ENOTSUP  STOOK_CACHE_TYPESAFE, and no RCU was set
 *          ENOMEM   no memory for the descriptors
 * context: not from a signal handler.  locks: cache list.  cost: microseconds.
 */
STOOK_API struct stook_cache *stook_cache_create(
    const char *name, size_t object_size, const struct stook_cache_args *args) STOOK_WARN_UNUSED;

/*
 * Destroy a cache: deferred frees are waited for, its sheaves and slabs go back.  NULL is accepted.  While objects are out it
 * fails with EBUSY, the cache stays usable, and a report on stderr names it and how many are out.
 * The caller guarantees that no other thread is in a call on this cache.
 *
 * errors:  EBUSY    objects of the cache are in use
 * context: not from a signal handler.  locks: all, in turn.  cost: one membarrier a used CPU.
 */
STOOK_API int stook_cache_destroy(struct stook_cache *cache);

/*
 * Give back what the cache holds but nobody uses: sheaves of all CPUs, barns, empty slabs; then
 * the arena's warm memory.  Returns the bytes of slabs that went back.  Safe beside any other call.
 * context: not from a signal handler.  cost: one membarrier a used CPU.
 */
STOOK_API size_t stook_cache_shrink(struct stook_cache *cache) STOOK_NONNULL(1);

/* ---- capacity and budgets (docs/capacity.md) --------------------------------------------------- */

/*
 * Change how many objects a sheaf of the cache holds, from 1 on; 0: the default, from the object's
 * size.  Safe beside any other call.  Sheaves that are made from now on have that capacity; full ones
 * of the old one are used up first and then replaced.  Where the capacity falls all CPUs' sheaves are
 * flushed, as by stook_cache_shrink(); one that a thread was just about to install, or of a CPU that is
 * isolated, stays until it comes by.  Limits of barns are made anew from the capacity.  An adaptive
 * cache starts from the capacity that is set.  Of caches that were merged it is everybody's.
 *
 * errors:  E2BIG    capacity beyond STOOK_SHEAF_CAPACITY_MAX
 *          ENOTSUP  a cache with STOOK_CACHE_NOSHEAF
 * context: not from a signal handler.  locks: barns, nodes, arenas, in turn.  cost: a microsecond;
 * where the capacity falls some membarriers a used CPU.
 */
STOOK_API int stook_cache_set_capacity(struct stook_cache *cache, unsigned capacity)
    STOOK_NONNULL(1);

/* Objects that a new sheaf holds now; 0: the cache has no sheaves.  context: any. */
STOOK_API unsigned stook_cache_capacity(const struct stook_cache *cache) STOOK_NONNULL(1);

/*
 * Bytes that caches hold in barns: of the objects in full sheaves, with what each barn was granted
 * ahead, 64 KiB at most unless another barn needs it sooner; and what the sheaves of adaptive caches
 * can hold more than before they grew.  Never more than the budget.  Not in it: what CPUs' sheaves hold
 * otherwise, at most two capacities and a refill a CPU and cache; free objects in slabs.
 * context: any.  cost: one load.
 */
STOOK_API size_t stook_cached_bytes(void);

/*
 * Set the budget for that, of all caches: 256 MiB from the start, or STOOK_CACHED_MAX in the
 * environment (a number, with k, M or G).  Beyond it barns refuse full sheaves, whose objects go to
 * their slabs.  Where it falls below what is held, barns are flushed until it is kept, which is when
 * this returns.  0: barns hold nothing.  Always gives 0.
 * context: not from a signal handler.  locks: all, in turn.
 */
STOOK_API int stook_cached_bytes_set_max(size_t bytes);

/*
 * Take one object.  Uninitialised unless STOOK_ZERO or constructed.  Aligned as the cache says.
 *
 * errors (NULL): ENOMEM   no memory, or none to be had in this context
 *                EINVAL   STOOK_ZERO on a cache with a constructor, or unknown flags
 *                EDQUOT   STOOK_CACHE_ACCOUNT, and the thread's group has come to a limit
 * context: signal handlers with STOOK_NOSPIN.  locks: none while the CPU's sheaf holds objects.
 * cost: about 1 ns when inlined (stook/inline.h), 2 ns as a call.
 */
STOOK_API void *stook_alloc(struct stook_cache *cache, unsigned flags)
    STOOK_NONNULL(1) STOOK_WARN_UNUSED;

/*
 * Take one object whose memory is `node`'s, by the numbers of the topology; -1 is stook_alloc().  Of
 * a node without memory, or that has none left, it is of the nearest that has, but with
 * STOOK_THISNODE it fails then.  It is freed as any other, from anywhere, and goes home.
 *
 * errors (NULL): ENOMEM   no memory, or none to be had in this context; with STOOK_THISNODE: of it
 *                EINVAL   there is no such node; as stook_alloc()
 * context: signal handlers with STOOK_NOSPIN.  locks: of the caller's own node as stook_alloc(); of
 * another one the barn's, then the node's and the arena's.
 * cost: of the own node stook_alloc()'s and 2 ns; of another a lock, and its cache misses, each time:
 * who needs many takes them on a thread of that node.
 */
STOOK_API void *stook_alloc_node(struct stook_cache *cache, unsigned flags, int node)
    STOOK_NONNULL(1) STOOK_WARN_UNUSED;

/*
 * Return one object.  NULL is accepted.  Cannot fail.  An object that is not of this cache, or is
 * seen to be free already, gets a report and an abort.
 * context: any, signal handlers included.  locks: none while the CPU's sheaf has room.
 */
STOOK_API void stook_free(struct stook_cache *cache, void *object) STOOK_NONNULL(1);

/* As stook_free(); the cache is found from the address in one load.  NULL is accepted. */
STOOK_API void stook_free_any(void *object);

/*
 * Take n objects: n, or 0 and nothing taken (errno as stook_alloc()).  n = 0 returns 0.
 * cost: about 3 ns + 0.2 ns an object while the CPU's sheaf holds n.
 */
STOOK_API size_t stook_alloc_bulk(struct stook_cache *cache, unsigned flags, size_t n,
                                  void **objects) STOOK_NONNULL(1) STOOK_WARN_UNUSED;

/* Return n objects in any order; NULL entries are skipped; the array is left unspecified. */
STOOK_API void stook_free_bulk(struct stook_cache *cache, size_t n, void **objects)
    STOOK_NONNULL(1);

/*
 * A call site.  stook_alloc(), stook_alloc_bulk(), stook_alloc_inline(), stook_sheaf_alloc(),
 * stook_pool_alloc() and stook_kmalloc() are macros too, which pass a static one of where they stand
 * to the call of the same name with _at, for profiles by call site (stook/tag.h, as Linux's
 * alloc_tag).  It costs an address in a register, and nothing more while profiling is off.  Without
 * the macros (a pointer to the function, its name in parentheses, STOOK_NO_SITES defined) the code
 * that the call returns to is the site.
 */
#define STOOK_SITE_DECLARED
struct stook_site {
    const char *file, *function;
    unsigned line;
    unsigned tag; /* the library's: 0 until the site is first counted */
};

STOOK_API void *stook_alloc_at(struct stook_cache *cache, unsigned flags, struct stook_site *site)
    STOOK_NONNULL(1) STOOK_WARN_UNUSED;
STOOK_API size_t stook_alloc_bulk_at(struct stook_cache *cache, unsigned flags, size_t n,
                                     void **objects, struct stook_site *site)
    STOOK_NONNULL(1) STOOK_WARN_UNUSED;

/* ---- reserves (docs/reserves.md) -------------------------------------------------------------- */

#define STOOK_POOL_OBJECTS_MAX (1u << 24) /* objects in a pool's reserve */
#define STOOK_RECLAIM_MAX 64u             /* reclaim callbacks at one time */

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
 * context: signal handlers with STOOK_NOSPIN.  STOOK_ZERO is stook_sheaf_alloc()'s, and ignored here.
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

/*
 * A pool: min_objects of the cache in a reserve, for who must get on where memory is short.  Any
 * number of threads may use it, several pools may share a cache, and the cache may be used directly
 * beside.
 */
struct stook_pool;

/*
 * Make a pool and fill its reserve.  With min_objects 0 it is a cache that one can wait for.
 *
 * errors:  E2BIG    min_objects beyond STOOK_POOL_OBJECTS_MAX
 *          ENOMEM   no memory for the reserve, or for the pool: some 4 KiB and 64 bytes a used CPU
 * context: not from a signal handler.  locks: as stook_alloc_bulk().  cost: microseconds.
 */
STOOK_API struct stook_pool *stook_pool_create(struct stook_cache *cache, unsigned min_objects)
    STOOK_NONNULL(1) STOOK_WARN_UNUSED;

/*
 * Destroy a pool; its reserve goes back to the cache.  NULL is accepted.  While objects of it are
 * out it fails with EBUSY, stays usable, and a report on stderr says how many.  The caller guarantees
 * that no other thread is in a call on this pool.  A pool goes before its cache.
 *
 * errors:  EBUSY    objects of the pool are in use
 * context: not from a signal handler.
 */
STOOK_API int stook_pool_destroy(struct stook_pool *pool);

/*
 * Take one object: from the cache, as with STOOK_NOWAIT; else from the reserve; else, with
 * STOOK_WAIT, reclaim and then sleep until an object is freed to the pool (and look again each
 * second, since memory may come back elsewhere).  With STOOK_WAIT it fails only where it may not
 * sleep: in a reclaim callback, and in a handler that interrupted the library.
 * STOOK_ZERO is honoured.
 *
 * errors (NULL): ENOMEM   nothing in the cache and in the reserve, and this context does not wait
 *                EINVAL   as stook_alloc()
 * context: signal handlers with STOOK_NOSPIN, wherever they interrupted a call on the same pool.
 * locks: as stook_alloc(); the reserve has none.  cost: stook_alloc()'s and a count, which is one more
 * restartable section.
 */
STOOK_API void *stook_pool_alloc(struct stook_pool *pool, unsigned flags)
    STOOK_NONNULL(1) STOOK_WARN_UNUSED;

STOOK_API void *stook_pool_alloc_at(struct stook_pool *pool, unsigned flags,
                                    struct stook_site *site) STOOK_NONNULL(1) STOOK_WARN_UNUSED;

/*
 * Return one object of the pool: to the reserve first, while that has fewer than min_objects, else
 * to the cache; wakes one who waits.  NULL is accepted.  Cannot fail.
 * context: any, signal handlers included.  locks: as stook_free().
 */
STOOK_API void stook_pool_free(struct stook_pool *pool, void *object) STOOK_NONNULL(1);

/*
 * Change min_objects beside any other call.  A larger reserve is filled before this returns, as far
 * as memory allows, and by frees then; what a smaller one has too much goes back to the cache.
 *
 * errors:  E2BIG    min_objects beyond STOOK_POOL_OBJECTS_MAX
 *          ENOMEM   no memory for the reserve's own array: nothing has changed
 * context: not from a signal handler.
 */
STOOK_API int stook_pool_resize(struct stook_pool *pool, unsigned min_objects) STOOK_NONNULL(1);

/* Objects in the reserve now. */
STOOK_API unsigned stook_pool_available(const struct stook_pool *pool) STOOK_NONNULL(1);

/*
 * Reclaim.  Before an allocation with STOOK_WAIT (one object, bulk, sheaf or pool) fails for want of
 * memory, the library gives back what it holds unused itself, the sheaves of all caches and their
 * empty slabs; then it calls every registered function once, with the bytes that it lacks, tries
 * again, and goes on with another round, four at most, while they say that they gave something back.
 *
 * A callback gives back what the program can do without (frees objects of any cache) and returns how
 * many bytes, 0 for nothing.  It runs in the thread that allocates, without any lock of the library,
 * in several threads at once perhaps, and may call all of the library; what it allocates itself does
 * not reclaim, and does not wait for pools.  Whoever allocates with STOOK_WAIT must hold no lock that
 * a callback takes; with libstook-malloc, malloc() does so.
 *
 * errors:  EINVAL   fn is NULL;  EEXIST  registered already (register)
 *          ENOSPC   STOOK_RECLAIM_MAX are registered (register);  ENOENT  it is not (unregister)
 * context: not from a signal handler.  stook_reclaim_unregister() waits until no thread is in the
 * callback any more, but for the calling one if it is in it itself.
 */
typedef size_t (*stook_reclaim_fn)(void *arg, size_t wanted);
STOOK_API int stook_reclaim_register(stook_reclaim_fn fn, void *arg);
STOOK_API int stook_reclaim_unregister(stook_reclaim_fn fn, void *arg);

/* The size the cache was made with, and the usable bytes of any object of this library. */
STOOK_API size_t stook_cache_object_size(const struct stook_cache *cache) STOOK_NONNULL(1);
STOOK_API size_t stook_usable_size(const void *object) STOOK_NONNULL(1);

/*
 * Write a table (or one JSON object) of all caches to a file descriptor: per cache name, object
 * size, stride, order, objects a slab, active and total objects, slabs, sheaves, barns, bytes
 * resident, in use, cached and wasted; then totals and the per-CPU mode.  Needs no memory.  The
 * table leaves out caches without slabs unless STOOK_REPORT_ALL is added to the format.
 * errors:  EINVAL unknown format; EDEADLK from a handler that interrupted the library; those of
 *          write(2).
 * context: beside any other call; not from a signal handler.  locks: all but slots, in turn.
 */
#define STOOK_REPORT_TABLE 0u
#define STOOK_REPORT_JSON 1u
#define STOOK_REPORT_ALL 0x10u
STOOK_API int stook_report(int fd, unsigned format);

/* Counters and attributes of one cache, by CPU and node: stook/stat.h. */

/*
 * How the process runs: "rseq" or "locked", and why; both are static strings.
 * cost: initialises the library when nothing has yet.
 */
STOOK_API const char *stook_mode(const char **why);

/* ---- deferred frees (docs/deferred-frees.md) --------------------------------------------------- */

/*
 * What an RCU needs to carry a callback.  It lies in the library's own memory, never in an object:
 * readers may still look at that.  `next` and `reserved` are the RCU's from call() until it calls
 * func; whoever keeps something larger there (a struct rcu_head of liburcu's fits) may.
 */
struct stook_rcu_head {
    struct stook_rcu_head *next;
    void (*func)(struct stook_rcu_head *head);
    void *reserved[2];
};

/*
 * An RCU: what knows the program's readers.  stook/urcu.h has liburcu's.  `size` is
 * sizeof(struct stook_rcu_ops) as the caller knows it.  The library calls these with no lock held.
 */
struct stook_rcu_ops {
    size_t size;
    /*
     * func(head) runs once, a grace period after this: when every reader that is inside a read-side
     * section now has left it.  In any thread; what happened before call() is visible to it; it may
     * use call() again.  Must not fail, block for readers, or use this library's caches with a lock
     * held that func's thread needs.  Called where stook_free_rcu() is: in handlers, if that is.
     */
    void (*call)(struct stook_rcu_head *head, void (*func)(struct stook_rcu_head *head));
    /* Returns when func has run, and returned, for every call() that returned before. */
    void (*barrier)(void);
    /* Waits for one grace period. */
    void (*synchronize)(void);
    /* May be NULL.  Whether this thread is, or may be, in a read-side section: it must not wait. */
    int (*reading)(void);
};

/*
 * Say which RCU the program uses.  Once, before the first deferred free and the first cache with
 * STOOK_CACHE_TYPESAFE; saying the same again is fine.  *ops is copied.
 *
 * errors:  EINVAL   ops is NULL, lacks a call, or has bytes set that this version does not know
 *          EBUSY    another one was set
 *          ENOMEM   no memory to register what fork() needs
 * context: not from a signal handler.  locks: none.
 */
STOOK_API int stook_rcu_set_ops(const struct stook_rcu_ops *ops);

/*
 * Return one object when the readers that may look at it are gone.  It stays as it is until then:
 * nothing writes to it.  Objects gather in a sheaf of this CPU; a full sheaf takes one callback and
 * goes to the barn of the node it was filled on, or to the slabs.  What is not full waits for more,
 * or for stook_rcu_barrier(), stook_cache_shrink() or stook_cache_destroy().  NULL is accepted.
 * Cannot fail; an object that is not of this cache, or no RCU set, gets a report and an abort.
 *
 * Without memory for a sheaf some 1000 objects wait elsewhere; when these places are taken too, the
 * call waits for a grace period if ops->reading says that it may, and else gets a report and an
 * abort: nothing is lost silently.
 *
 * context: any, inside read-side sections and in signal handlers too (with an RCU whose call() may be
 * used there; liburcu's may once stook_urcu_use_*() was called).  Never blocks but as said.
 * locks: barn, node, arena, in turn, once a sheaf.  cost: about 5 ns, and call() once a sheaf.
 */
STOOK_API void stook_free_rcu(struct stook_cache *cache, void *object) STOOK_NONNULL(1);

/*
 * Wait until every object that was deferred before, by any thread, of any cache, is free.  Returns
 * at once when no RCU was set.
 * context: not in a read-side section, not from a signal handler, not from a callback of the RCU.
 * locks: none while it waits.  cost: a grace period; interrupts CPUs where something waited.
 */
STOOK_API void stook_rcu_barrier(void);

/* ---- CPUs and nodes that come and go (docs/topology.md) ---------------------------------------- */

/*
 * Look now whether the machine, or what of it the process may use, has changed: CPUs and nodes that
 * came or went, memory of a node, a cpuset or affinities that were cut.  The library looks by itself,
 * after every 1024th allocation on a CPU that finds the CPU's sheaf empty, with the next one that may wait;
 * malloc never does.  This call is for a program that knows, that calls malloc only, or that is about to
 * sleep.  Sheaves of CPUs on which no thread may run any more go back, and those of nodes where none may;
 * the node that a CPU takes memory from follows the machine.
 *
 * returns: how many CPUs and nodes are other than before, 0 for none; or -1.
 * errors:  EDEADLK  from a handler that interrupted the library, or from a destructor that it runs
 * context: beside any other call; not from a signal handler.  locks: all, in turn.  cost: some files
 * of sysfs, 0.2 us a thread of the process, and one fence (membarrier) a CPU that was left.
 */
STOOK_API int stook_topology_update(void);

/* ---- simulated topology ---------------------------------------------------------------------- */

/*
 * Let the process believe that it runs on the machine that a text, or the file of that name,
 * describes: CPUs, nodes, memory and distances, e.g. "node:2 core:4 memory:0=16G"
 * (docs/topology.md).  The environment variable STOOK_TOPOLOGY does the same from the start; this
 * call replaces what that said.  A process with a simulated topology runs in locked mode.
 *
 * errors:  EINVAL   no such file, or the text is wrong: stderr was told what is, and where
 *          EBUSY    something was allocated or a cache made already (where malloc is this
 *                   library's, that is before main)
 * context: no other thread may be in a call of the library.  cost: the library starts once more.
 */
STOOK_API int stook_topology_set(const char *text_or_file);

/*
 * This thread is on that CPU of the simulated topology from here on.  Threads that never call it
 * are dealt out to the CPUs in turn.  Gives the CPU it was on before, or -1.
 *
 * errors:  EINVAL   the topology has no such CPU, or it is offline
 *          ENOTSUP  the topology is not simulated
 * context: not from a signal handler.  locks: none.
 */
STOOK_API int stook_topology_cpu(int cpu);

/*
 * A CPU of the simulated topology goes offline (online = 0), or comes back: all are there at the
 * start.  Its sheaves go back; threads that stated it are dealt another one with their next call.
 *
 * The memory of a node goes, or comes (back): new slabs are no more, or again, made there; its empty
 * slabs and warm pages go back.  Objects that are in use stay where they are.
 *
 * Saying what is so already is fine.
 *
 * errors:  EINVAL   the topology has no such CPU, or no such node
 *          EBUSY    it is the last CPU that is online, or the last memory
 *          ENOTSUP  the topology is not simulated
 *          EDEADLK  as stook_topology_update()
 * context: beside any other call; not from a signal handler.  locks: all, in turn.
 */
STOOK_API int stook_topology_cpu_online(int cpu, int online);
STOOK_API int stook_topology_memory_online(int node, int online);

#ifdef __cplusplus
}
#endif

#if !defined(STOOK_NO_SITES) && defined(__GNUC__)
#define STOOK_SITE                                                                                 \
    (__extension__({                                                                               \
        static struct stook_site stook_site_ = {__FILE__, __func__, __LINE__, 0};                  \
        &stook_site_;                                                                              \
    }))
#define stook_alloc(...) stook_alloc_at(__VA_ARGS__, STOOK_SITE)
#define stook_alloc_bulk(...) stook_alloc_bulk_at(__VA_ARGS__, STOOK_SITE)
#define stook_sheaf_alloc(...) stook_sheaf_alloc_at(__VA_ARGS__, STOOK_SITE)
#define stook_pool_alloc(...) stook_pool_alloc_at(__VA_ARGS__, STOOK_SITE)
#endif

#endif /* STOOK_STOOK_H */
