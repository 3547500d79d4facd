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
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define STOOK_VERSION_MAJOR 0
#define STOOK_VERSION_MINOR 1
#define STOOK_VERSION_PATCH 0
#define STOOK_VERSION_STRING "0.1.0"
/* One number that compares as versions do, of the headers. */
#define STOOK_VERSION                                                                              \
    (STOOK_VERSION_MAJOR * 10000 + STOOK_VERSION_MINOR * 100 + STOOK_VERSION_PATCH)

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
#define STOOK_CAPACITY_DEFAULT 0u          /* a capacity that follows from the object's size */
#define STOOK_UNLIMITED SIZE_MAX           /* no limit, where a call takes or tells one */
#define STOOK_NAME_MAX 63u                 /* bytes of a cache's name that are kept */

/* What the caller of an allocation can bear.  0 means STOOK_WAIT. */
#define STOOK_WAIT 0x0u      /* may ask the OS for memory, run reclaim callbacks, wait for a pool */
#define STOOK_NORECLAIM 0x1u /* takes locks and may ask the OS, but runs no reclaim */
#define STOOK_SIGNAL_SAFE                                                                          \
    0x2u                /* takes no lock that another context may hold; may fail: for handlers */
#define STOOK_ZERO 0x4u /* the object is filled with zeros; EINVAL with a constructor */
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
    void (*ctor)(void *object, void *arg); /* runs once per object when its slab is made */
    void (*dtor)(void *object, void *arg); /* runs once per object when its slab goes */
    void *arg;                             /* what both get */
    unsigned flags;                        /* STOOK_CACHE_* */
    unsigned sheaf_capacity;               /* objects a sheaf; 0: from the object's size */
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
 * Change how many objects a sheaf of the cache holds, from 1 on, or STOOK_CAPACITY_DEFAULT: what follows
 * from the object's size.  Safe beside any other call.  Sheaves that are made from now on have that capacity; full ones
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
 * context: signal handlers with STOOK_SIGNAL_SAFE.  locks: none while the CPU's sheaf holds objects.
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
 * context: signal handlers with STOOK_SIGNAL_SAFE.  locks: of the caller's own node as stook_alloc(); of
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

/*
 * Return any object by its address: of any cache, of stook_kmalloc(), of malloc() where that is this
 * library's.  NULL and STOOK_KMALLOC_NONE are accepted.  Cannot fail; a pointer to something else gets a
 * report and an abort.
 * context: any, signal handlers included.  cost: stook_free()'s and one load.
 */
STOOK_API void stook_free_any(void *object);

/*
 * Take n objects: all of them, or none (-1 with errno, as stook_alloc()).  n = 0 takes none and is 0.
 * cost: about 3 ns + 0.2 ns an object while the CPU's sheaf holds n.
 */
STOOK_API int stook_alloc_bulk(struct stook_cache *cache, unsigned flags, size_t n, void **objects)
    STOOK_NONNULL(1) STOOK_WARN_UNUSED;

/* Return n objects in any order; NULL entries are skipped; the array is left unspecified. */
STOOK_API void stook_free_bulk(struct stook_cache *cache, size_t n, void **objects)
    STOOK_NONNULL(1);

/*
 * A call site, for profiles by call site (stook/tag.h).  The library knows a call by the address that it
 * returns to, which `stook profile` turns into a file and a line with the program's debug information.
 * A program that defines STOOK_SITES before it includes a header of this library says file, function
 * and line itself: stook_alloc(), stook_alloc_bulk(), stook_alloc_inline(), stook_sheaf_alloc(),
 * stook_pool_alloc() and stook_kmalloc() are macros then, which pass a static site (24 writable bytes)
 * to the call of the same name with _at.  Not in C99 inline functions with external linkage, which may
 * not define one.
 */
struct stook_site {
    const char *file, *function;
    unsigned line;
    unsigned tag; /* the library's: 0 until the site is first counted */
};

STOOK_API void *stook_alloc_at(struct stook_cache *cache, unsigned flags, struct stook_site *site)
    STOOK_NONNULL(1) STOOK_WARN_UNUSED;
STOOK_API int stook_alloc_bulk_at(struct stook_cache *cache, unsigned flags, size_t n,
                                  void **objects, struct stook_site *site)
    STOOK_NONNULL(1) STOOK_WARN_UNUSED;

/* The name that the cache was made with, as far as it is kept.  Valid while the cache is.  context: any. */
STOOK_API const char *stook_cache_name(const struct stook_cache *cache) STOOK_NONNULL(1);

/*
 * The cache of an object, malloc's and stook_kmalloc()'s among them; NULL for any other pointer, whole
 * pages too.  Any pointer may be asked, also one into an object.
 * context: any.  locks: none.  cost: two loads.
 */
STOOK_API struct stook_cache *stook_cache_of(const void *object);

/*
 * The oldest cache of that name, of those that stook_cache_each() knows.  The caller sees to it that it
 * is not destroyed meanwhile.
 *
 * errors (NULL): ENOENT   there is none
 *                EDEADLK  from a handler that interrupted the library
 * context: not from a signal handler.  locks: cache list.
 */
STOOK_API struct stook_cache *stook_cache_by_name(const char *name) STOOK_NONNULL(1);

/*
 * Call fn(cache, arg) for each cache, the oldest first, until it returns other than 0: the program's
 * caches, merged ones once, and those of stook_kmalloc() and of libstook-malloc.  A cache stays while fn
 * has it: a thread that destroys it waits.  fn runs without any lock of the library and may call all of
 * it, but not destroy the cache that it has.  A cache that is made or destroyed meanwhile may be left out.
 *
 * errors:  EDEADLK  from a handler that interrupted the library
 * context: not from a signal handler.  locks: cache list, between the calls of fn.
 */
STOOK_API int stook_cache_each(int (*fn)(struct stook_cache *cache, void *arg), void *arg)
    STOOK_NONNULL(1);

/*
 * Call fn(object, arg) for each live object of the cache, until it returns other than 0.  Sheaves and barns
 * are flushed first, as by stook_cache_shrink(), so that what they hold is not taken for live.  Objects of
 * prefilled sheaves, of pools' reserves, and that wait for an RCU, count as live.
 *
 * If no other thread uses the cache meanwhile, each live object is given once, and no other; on CPUs that
 * are isolated from interrupts sheaves may keep free ones, which are given too.  Beside other threads an
 * object that is live all the time is given once; any other may be, even one that is free: its address is a
 * number then.  fn runs without any lock of the library; it may free the object that it has.
 *
 * errors:  EDEADLK  from a handler that interrupted the library
 *          ENOTSUP  the library was built without marks (STOOK_HARDEN=OFF)
 * context: not from a signal handler.  locks: barns, nodes, arenas, in turn.
 * cost: stook_cache_shrink()'s, a load a page of all caches, and one an object of this one.
 */
STOOK_API int stook_cache_walk(struct stook_cache *cache, int (*fn)(void *object, void *arg),
                               void *arg) STOOK_NONNULL(1, 2);

/*
 * The node of an object's memory, by the numbers of the topology: of any cache, or the first byte of whole
 * pages.
 *
 * errors (-1): EINVAL   no object of this library
 * context: any.  locks: none.
 */
STOOK_API int stook_node_of(const void *object);

/* The size that the cache was made with. */
STOOK_API size_t stook_cache_object_size(const struct stook_cache *cache) STOOK_NONNULL(1);

/*
 * Bytes of any object of this library that may be used, at least those that were asked for; the
 * object's size where the cache has a constructor or destructor.  0 for NULL and STOOK_KMALLOC_NONE.
 */
STOOK_API size_t stook_usable_size(const void *object);

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
 * The version of the library that runs, where STOOK_VERSION_STRING and STOOK_VERSION are those of the
 * headers.  context: any.
 */
STOOK_API const char *stook_version(void);
STOOK_API unsigned stook_version_number(void);

/*
 * Give what the library has to say to fn(level, text, length, arg) and no more to stderr; NULL: to stderr
 * again.  `text` is one line without "stook: " and newline, NUL-terminated, of `length` bytes; it is gone
 * when fn returns.  After STOOK_MESSAGE_FATAL the process aborts when fn returns.
 *
 * fn runs in the thread that found what it says, which may be in a signal handler and hold locks of the
 * library: it may call what is async-signal-safe, and nothing of this library, malloc included where that
 * is this library's.
 *
 * context: not from a signal handler, and one thread at a time.  A message that is under way may still go
 * to the fn before.  Reports (stook_report() and its like) are no messages.
 */
#define STOOK_MESSAGE_WARNING 0
#define STOOK_MESSAGE_FATAL 1
typedef void (*stook_message_fn)(int level, const char *text, size_t length, void *arg);
STOOK_API void stook_message_set(stook_message_fn fn, void *arg);

/*
 * How the process runs: "rseq" or "locked", and why; both are static strings.
 * cost: initialises the library when nothing has yet.
 */
STOOK_API const char *stook_mode(const char **why);

#ifdef __cplusplus
}
#endif

#if defined(STOOK_SITES) && defined(__GNUC__)
#define STOOK_SITE                                                                                 \
    (__extension__({                                                                               \
        static struct stook_site stook_site_ = {__FILE__, __func__, __LINE__, 0};                  \
        &stook_site_;                                                                              \
    }))
#define stook_alloc(...) stook_alloc_at(__VA_ARGS__, STOOK_SITE)
#define stook_alloc_bulk(...) stook_alloc_bulk_at(__VA_ARGS__, STOOK_SITE)
#endif

#endif /* STOOK_STOOK_H */
