/* SPDX-License-Identifier: MIT */
/*
 * stook.h - typed object caches with per-CPU sheaves and per-node barns.
 *
 * The path of an object:
 *
 *   stook_alloc -> main sheaf -> spare sheaf -> barn -> partial slabs -> new slab -> arena -> OS
 *   stook_free  -> main sheaf -> spare sheaf -> barn -> detached freelists -> slab -> arena -> OS
 *
 * A cache holds objects of one type (Bonwick, "The Slab Allocator", USENIX 1994); the per-CPU and
 * per-node layers follow Linux's sheaves and barns (mm/slub.c) and Bonwick's magazines and depot
 * ("Magazines and Vmem", USENIX 2001).
 *
 * Other headers, by subject: inline.h (the fast path inlined), kmalloc.h (any size), reserve.h (reserves, reclaim).  Then
 * rcu.h (deferred frees), group.h (limits, accounting), stat.h (counters, call sites), debug.h (corruption, traces), topology.h.
 * kmem.h, an extra, has the kernel's names.
 *
 * Conventions of all headers:
 *  - Sizes are bytes.
 *  - A function that returns int returns 0, or -1 with errno set.  Exceptions say so: the number of a CPU
 *    or node is an int as well.  A function that returns a pointer returns NULL with errno set.
 *  - A limit is a number of bytes.  STOOK_UNLIMITED is no limit, and 0 allows nothing.
 *  - A structure that may grow begins with `size`, which the caller sets to its sizeof: a multiple of 8,
 *    4096 at most (else EINVAL).  In arguments, a member that is 0 means its default; a member that this
 *    library does not know must be 0 (EINVAL).  In results, the library writes `size` bytes and sets members
 *    that it does not know to 0.
 *  - A callback gets its subject first and the caller's `void *arg` last.
 *  - Any thread may make any call.
 *  - A signal handler that interrupts a call of this library must return: longjmp() out of it leaves a
 *    slot of the CPU closed.
 *  - An allocation sleeps until memory is freed in three cases only: from a pool with STOOK_WAIT (reserve.h), with
 *    STOOK_NOFAIL (kmalloc.h), and where a reclaim callback of the program sleeps (reserve.h).  Otherwise calls may wait
 *    for a lock of the library while another thread holds it; with STOOK_SIGNAL_SAFE they do not.
 *  - The library has no thread, and needs no idle call or timer of an event loop.
 *  - A thread needs no call when it starts or ends.  Free objects that it leaves in sheaves are the CPU's, and serve the next
 *    thread there.  CPUs need not be isolated, nor threads pinned.
 *  - docs/system-calls.md lists the system calls of each function, for a seccomp filter, and the stack that it takes.
 *  - A forked child may make any call.  After vfork() or clone(CLONE_VM) a child may make none, as of any
 *    malloc: it may only exec or exit.  posix_spawn() is safe.
 *
 * Each entry here and in the other headers has the following shape, and scripts/man.py makes the man pages
 * from it.  It begins with a summary in one sentence, and text.  Then come the labels that apply:
 *
 *   returns:  what the call returns
 *   errors:   the values of errno, one a line
 *   context:  where it may be called: "any" includes signal handlers
 *   locks:    which locks of the library it may wait for
 *   cost:     what it costs
 */
#ifndef STOOK_STOOK_H
#define STOOK_STOOK_H

#include <stddef.h>
#include <stdint.h>

/*
 * Around the declarations of these headers.  In C++ they are C's, whose casts are C's, too, and stook_group_stat() and
 * its like hide the constructor of the structure, as stat() does: no warning says so.
 */
#ifdef __cplusplus
#ifdef __clang__
#define STOOK_C_QUIET
#else
#define STOOK_C_QUIET _Pragma("GCC diagnostic ignored \"-Wuseless-cast\"")
#endif
#define STOOK_C_BEGIN                                                                              \
    _Pragma("GCC diagnostic push") _Pragma("GCC diagnostic ignored \"-Wold-style-cast\"")          \
        _Pragma("GCC diagnostic ignored \"-Wshadow\"") STOOK_C_QUIET extern "C"                    \
    {
#define STOOK_C_END                                                                                \
    }                                                                                              \
    _Pragma("GCC diagnostic pop")
#define STOOK_CAST(type, value) reinterpret_cast<type>(value)
#else
#define STOOK_C_BEGIN
#define STOOK_C_END
#define STOOK_CAST(type, value) ((type)(value))
#endif

STOOK_C_BEGIN

/* The version of the headers; stook_version() has the library's. */
#define STOOK_VERSION_MAJOR 0
#define STOOK_VERSION_MINOR 3
#define STOOK_VERSION_PATCH 0
#define STOOK_VERSION_STRING "0.3.0"
/* One number that compares as versions do. */
#define STOOK_VERSION                                                                              \
    (STOOK_VERSION_MAJOR * 10000 + STOOK_VERSION_MINOR * 100 + STOOK_VERSION_PATCH)

#if defined(__GNUC__)
/* Calls read the address themselves instead of by the PLT: 0.5 ns less each.  Where the function is linked statically the
 * linker makes a direct call of it; aarch64's linkers do not, and clang lacks the attribute. */
#if defined(__x86_64__) && !defined(__clang__)
#define STOOK_API __attribute__((visibility("default"), noplt))
#else
#define STOOK_API __attribute__((visibility("default")))
#endif
#define STOOK_NONNULL(...) __attribute__((nonnull(__VA_ARGS__)))
#define STOOK_WARN_UNUSED __attribute__((warn_unused_result))
/*
 * Of calls that take a size, by the numbers of its arguments: compilers and _FORTIFY_SOURCE know what is behind the
 * pointer, as of malloc().  STOOK_MALLOC(): no other pointer leads there, and nothing there is a pointer to an object.  That
 * is not so of a cache with a constructor.  No deallocator is named: GCC ignores that on inline functions, and would
 * warn where free() is this library's.
 */
#define STOOK_SIZED(...)                                                                           \
    __attribute__((alloc_size(__VA_ARGS__), assume_aligned(8), warn_unused_result))
#define STOOK_MALLOC(...) STOOK_SIZED(__VA_ARGS__) __attribute__((malloc))
/* For C++: a call behind which nothing is left to do needs no frame.  Callbacks must not throw through the library. */
#define STOOK_NOTHROW __attribute__((nothrow))
#else
#define STOOK_API
#define STOOK_NONNULL(...)
#define STOOK_WARN_UNUSED
#define STOOK_SIZED(...)
#define STOOK_MALLOC(...)
#define STOOK_NOTHROW
#endif

/* An inline function of these headers.  In C++ it is one function for all files, which templates and modules may call. */
#ifdef __cplusplus
#define STOOK_INLINE inline
#else
#define STOOK_INLINE static inline
#endif

/* No limit, wherever a call takes a limit or a structure has one. */
#define STOOK_UNLIMITED SIZE_MAX

/* ---- caches ---------------------------------------------------------------------------------- */

/* Limits.  A request beyond one of them fails with the errno named at stook_cache_create(). */
#define STOOK_CACHES_MAX 4096u           /* caches alive at one time, the library's own included */
#define STOOK_OBJECT_SIZE_MAX (4u << 20) /* largest object of a cache */
#define STOOK_ALIGN_MAX 4096u            /* largest alignment of a cache's objects */
#define STOOK_SLAB_OBJECTS_MAX 32767u    /* objects in one slab */
#define STOOK_SHEAF_CAPACITY_MAX 1022u   /* objects in one sheaf */
#define STOOK_CAPACITY_DEFAULT 0u        /* a capacity that follows from the object's size */
#define STOOK_NAME_MAX 63u               /* bytes of a cache's name that are kept */

/* Flags of a cache (stook_cache_args.flags). */

/* Objects are aligned to cache lines (64 bytes). */
#define STOOK_CACHE_HWALIGN 0x1u
/* 0x2u was STOOK_CACHE_MERGE in version 0.2.0: caches are never merged, and the flag is refused. */
/* The cache has no per-CPU sheaves: every call goes to the slabs. */
#define STOOK_CACHE_NOSHEAF 0x4u
/*
 * A new slab hands out its objects in random order, so that an attacker cannot predict an object's
 * neighbour (as Linux's CONFIG_SLAB_FREELIST_RANDOM).  STOOK_HARDEN=order in the environment sets it for
 * all caches.
 */
#define STOOK_CACHE_RANDOM 0x8u
/*
 * The place of the links of free objects.  By default objects of 48 bytes and more have them outside, in
 * an array of 16 bits an object; smaller ones have them inside the free objects.  INSIDE saves these bytes,
 * costs a cache miss for each cold object that is freed, and excludes a constructor.  OUTSIDE costs the
 * bytes for tiny objects too.
 */
#define STOOK_CACHE_LINK_INSIDE 0x10u
#define STOOK_CACHE_LINK_OUTSIDE 0x20u
/*
 * Type-stable memory: the memory of an object stays an object of this cache, free or allocated again, for
 * a reader in a read-side section of the RCU that was set (as Linux's SLAB_TYPESAFE_BY_RCU).  Slabs are
 * given back only after a grace period; links are outside.  Needs stook_rcu_set_ops() first.
 */
#define STOOK_CACHE_TYPESAFE 0x40u
/*
 * The cache grows its sheaves and its barns' limits if barns miss sheaves that they refused before.  It
 * stays within its budget and the process's, and shrinks again when it is idle (docs/capacity.md).
 * All caches do so, except those with STOOK_CACHE_NOSHEAF, which excludes it, and those whose
 * sheaf_capacity is set: these adapt only if they have this flag.
 */
#define STOOK_CACHE_ADAPTIVE 0x80u
/*
 * Each object is charged to the group of the thread that allocates it (stook/group.h).  8 bytes an object
 * say which group it is; they are placed where they cost no memory, if there is such a place
 * (docs/columns.md).
 */
#define STOOK_CACHE_ACCOUNT 0x100u
/*
 * Debug flags: the kernel's slab_debug, by its letters F, Z, P, U, T and A (docs/debug.md).  A cache with one of
 * them has no sheaves, so every call goes to the slabs; other caches pay nothing.  The library
 * reports and repairs a corruption, and the program goes on; STOOK_ON_CORRUPTION=abort in the environment ends it.
 * STOOK_DEBUG in the environment sets them for caches by name.
 *
 * CHECKS (F): frees, links and counts are checked in full.  RED_ZONE (Z): bytes before and behind each object,
 * at least 8 on each side, are checked when the object is allocated and freed.  POISON (P): so are the bytes of
 * free objects; no effect on caches with a constructor or with TYPESAFE.  USER (U): 56 bytes an object keep the
 * stack, thread, CPU and time of its allocation and its free; some microseconds a call.  TRACE (T): each call
 * is written to standard error.  FAIL (A): allocations fail on purpose, as STOOK_FAIL says.
 */
#define STOOK_CACHE_DEBUG_CHECKS 0x1000u
#define STOOK_CACHE_DEBUG_RED_ZONE 0x2000u
#define STOOK_CACHE_DEBUG_POISON 0x4000u
#define STOOK_CACHE_DEBUG_USER 0x8000u
#define STOOK_CACHE_DEBUG_TRACE 0x10000u
#define STOOK_CACHE_DEBUG_FAIL 0x20000u

/*
 * Hardening flags (docs/security.md).  STOOK_HARDEN in the environment sets them for all caches.
 *
 * ZERO_ON_FREE: a freed object is filled with zeros; a cache with a constructor, a destructor or TYPESAFE cannot
 * have it (EINVAL).  QUARANTINE: a freed object is reused only when 256 KiB more have been freed
 * on that CPU.  A second free is reported at once.  A write after free is reported when the object leaves, is
 * handed out again, or its slab goes.
 * A cache with one of these two is closed to the fast path: tens of nanoseconds a call.
 *
 * GUARD_PAGES: a page without access follows each slab, while the process has mappings left for that; two system
 * calls when a slab is made and given back.  OWN_PAGES: the address range of a slab is never used for anything
 * but this cache's objects, even after the cache is destroyed; its memory goes back to the OS.  Each free asks whose
 * the object is: an object of another cache is reported at once.  That takes 3 ns more a call, 4 if it is inlined.
 */
#define STOOK_CACHE_ZERO_ON_FREE 0x40000u
#define STOOK_CACHE_QUARANTINE 0x80000u
#define STOOK_CACHE_GUARD_PAGES 0x100000u
#define STOOK_CACHE_OWN_PAGES 0x200000u

struct stook_cache;

/* Arguments of a cache.  `size` is sizeof(struct stook_cache_args); every other member may be 0. */
struct stook_cache_args {
    size_t size;
    size_t align; /* power of two up to STOOK_ALIGN_MAX; 0: 8, or 16 from 16 bytes on */
    void (*ctor)(void *object, void *arg); /* runs once per object when its slab is made */
    void (*dtor)(void *object, void *arg); /* runs once per object when its slab is given back */
    void *arg;                             /* passed to both */
    unsigned flags;                        /* STOOK_CACHE_* */
    unsigned sheaf_capacity; /* objects in a sheaf; 0: from the object's size and its use */
    size_t
        cached_bytes_max; /* its barns hold no more, or STOOK_UNLIMITED; 0: 8 MiB if it is adaptive,
                              * else no budget of its own */
    size_t
        slab_bytes_max; /* its slabs are no more: then allocations reclaim, or fail; 0: no limit */
};

/*
 * Make a cache of objects of `object_size` bytes.
 *
 * `name` is copied, up to STOOK_NAME_MAX bytes; it need not be unique.  `args` may be NULL and is not kept.
 * Objects are constructed once, when their slab is made; the caller must free them in constructed state,
 * and gets them back so.  A constructor or destructor may use other caches, but not
 * its own, and runs without any lock of the library.
 *
 * returns: the cache, which the caller destroys; or NULL
 * errors:  EINVAL   name is NULL, object_size is 0, align is no power of two, args->size is not a sizeof, or a
 *                   member is set that this version does not know
 *          EINVAL   unknown flags, both of LINK_*, links inside with a constructor or TYPESAFE, or ADAPTIVE
 *                   with NOSHEAF
 *          E2BIG    object_size, align or sheaf_capacity is beyond its limit, or slab_bytes_max is less than a slab
 *          ENFILE   STOOK_CACHES_MAX caches are alive
 *          ENOTSUP  STOOK_CACHE_TYPESAFE, and no RCU was set
 *          ENOMEM   out of memory for the descriptors; or called by a function that the library's own start calls,
 *                   which another library has defined
 * context: not in a signal handler
 * locks:   cache list
 * cost:    microseconds
 */
STOOK_API struct stook_cache *stook_cache_create(
    const char *name, size_t object_size, const struct stook_cache_args *args) STOOK_WARN_UNUSED;

/*
 * Destroy a cache.
 *
 * The call waits for deferred frees, and for threads that are still at the list work of slabs of the cache: those that
 * fork, and those whose signal handler freed objects of it.  Then it gives back the sheaves and slabs.  NULL is
 * accepted.  While objects are in use it fails, the cache stays usable, and a line on standard error says how many there
 * are; for a cache with debug flags, reports say which.  The caller guarantees that no other thread is in a call on this cache.
 * Sheaves that threads used are flushed, whether the threads go on or have ended; prefilled ones (reserve.h) are
 * returned before.  In a forked child, objects that another thread was just moving in the parent count as in use.  A cache that is
 * destroyed must not be used: calls on it fail with EINVAL as long as its descriptor serves no other cache, and a free is reported.
 *
 * errors:  EBUSY    objects of the cache are in use, or prefilled sheaves were not returned
 *          EINVAL   the cache was destroyed before, which is reported of a cache with debug flags
 * context: not in a signal handler
 * locks:   all, in turn
 * cost:    one membarrier a used CPU
 */
STOOK_API int stook_cache_destroy(struct stook_cache *cache);

/*
 * Give back the memory that the cache holds and does not use.
 *
 * That is the sheaves of all CPUs, the barns and the empty slabs; then the warm pages of the arena.  Safe
 * beside any other call.  A program need not call it for memory to be given back.
 *
 * returns: the bytes of slabs that were given back
 * errors:  EINVAL   the cache was destroyed: 0
 * context: not in a signal handler
 * locks:   barns, nodes, arenas, in turn
 * cost:    one membarrier a used CPU
 */
STOOK_API size_t stook_cache_shrink(struct stook_cache *cache) STOOK_NONNULL(1);

/*
 * Check every slab of a cache, or of all caches if `cache` is NULL.
 *
 * The links of free objects are followed and counted.  Of a cache with debug flags the red zones of all
 * objects and the poison of free ones are checked too.  Each error is reported and
 * repaired: bytes are restored, and a damaged freelist is taken out of its slab, whose free objects are not used
 * again.  A damaged list of a cache without debug flags is reported only, and the process aborts unless STOOK_ON_CORRUPTION=continue.
 * Other threads may use the cache meanwhile; objects that they allocate or free at that moment are left out.
 *
 * returns: the number of errors found, or -1
 * errors:  EINVAL   the cache was destroyed
 *          EDEADLK  called by a handler that interrupted the library
 * context: not in a signal handler
 * locks:   cache list if all are checked; node; arena
 * cost:    all bytes of free objects and of red zones are read; a load a page of all caches
 */
STOOK_API long stook_cache_validate(struct stook_cache *cache);

/* ---- objects --------------------------------------------------------------------------------- */

/* Flags of an allocation: what it may do to get memory.  One of the first three. */

/* It may ask the kernel, run reclaim callbacks, and sleep until memory is freed. */
#define STOOK_WAIT 0x0u
/*
 * It runs no reclaim callback and does not sleep until memory is freed.  It may ask the kernel for memory,
 * and sleep while another thread holds a lock of the library.  (Linux's GFP_NOWAIT.)
 */
#define STOOK_NORECLAIM 0x1u
/*
 * It is async-signal-safe, as POSIX defines it: it waits for no lock, and fails instead.  For signal
 * handlers, and for callers that must not sleep at all.
 */
#define STOOK_SIGNAL_SAFE 0x2u
/* The object is filled with zeros.  EINVAL with a constructor. */
#define STOOK_ZERO 0x4u
/* With STOOK_NODE: fail rather than fall back to another node. */
#define STOOK_THISNODE 0x40u
/* In a call with arguments: the memory is that of args->node. */
#define STOOK_NODE 0x80u

/*
 * Allocate one object.
 *
 * Its contents are undefined, unless STOOK_ZERO is given or the cache has a constructor.  It is aligned as
 * the cache says.  The caller frees it, from any thread.
 *
 * returns: the object, or NULL
 * errors:  ENOMEM   out of memory, or the cache's slab_bytes_max is reached, or the flags forbid the work needed
 *                   to get some
 *          EINVAL   STOOK_ZERO on a cache with a constructor, or unknown flags
 *          EDQUOT   STOOK_CACHE_ACCOUNT, and the thread's group is at a limit
 * context: any with STOOK_SIGNAL_SAFE, else not in a signal handler
 * locks:   none while the CPU's sheaf holds objects; else barn, node and arena, in turn
 * cost:    about 1 ns when inlined (stook_alloc_inline() in stook/inline.h), 2 ns as a call
 */
STOOK_API void *stook_alloc(struct stook_cache *cache, unsigned flags)
    STOOK_NONNULL(1) STOOK_WARN_UNUSED;

/*
 * A call site, for profiles by call site (stook/stat.h).
 *
 * By default the library knows a call by the address that it returns to, which `stook profile` turns into a
 * file and a line with the program's debugging information.  A program that defines STOOK_SITES before it
 * includes a header of this library states file, function and line itself: stook_alloc(), stook_alloc_bulk(),
 * stook_alloc_inline() and stook_kmalloc() are macros then, which pass a static site (72 bytes) to the call of
 * the same name with _with.  Such a call must not be in a C99 inline function with external linkage, which may
 * not define a static variable.
 */
struct stook_site {
    const char *file, *function;
    unsigned line;
    unsigned tag; /* the library's: 0 until the site is first counted */
};

struct stook_group; /* stook/group.h */

/*
 * Arguments of an allocation, besides its flags.  `size` is sizeof(struct stook_alloc_args); every other member may be 0.
 */
struct stook_alloc_args {
    size_t size;
    /* The call site.  NULL: the address `from`. */
    struct stook_site *site;
    /* For a wrapper, such as the allocator of another language: the address that it returns to, or any within the function
     * that allocates.  Profiles by call site and reports of debugged caches name it.  NULL: the address that this call
     * returns to. */
    const void *from;
    /* The group that is charged, STOOK_NO_GROUP for none.  NULL: the thread's.  Ignored where the memory is of no accounted
     * cache. */
    const struct stook_group *group;
    /* Called where there is no object; the call returns what it returns.  It may end the process, or throw a C++ exception
     * through the call, which holds nothing by then: a caller that cannot go on without the object has nothing to do behind
     * the call.  Not called where `size`, or a member that is not known, is refused. */
    void *(*fail)(struct stook_cache *cache, unsigned flags);
    int node;       /* with STOOK_NODE; -1: any */
    unsigned align; /* of stook_kmalloc_with() and stook_krealloc_with(); 0 for a cache's objects */
};

/*
 * Allocate one object with arguments.
 *
 * As stook_alloc(), with what *args says.  The arguments are not kept, and may be constant.
 *
 * With STOOK_NODE the object is of the memory of args->node.  Nodes have the numbers of the topology.  If the node has no
 * memory, or none left, the object is of the nearest node that has some; with STOOK_THISNODE the call fails instead.  The
 * object is freed as any other, by any thread, and returns to its node.
 *
 * stook_alloc_bulk_with() is stook_alloc_bulk() with site, from and group.  It has no node and no fail (EINVAL).
 *
 * returns: as stook_alloc() and stook_alloc_bulk(); else what args->fail() returns
 * errors:  EINVAL   args->size is not a sizeof, or a member is set that this version does not know; args->align is not 0
 *          EINVAL   there is no such node; STOOK_THISNODE without STOOK_NODE; the group was destroyed; as stook_alloc()
 *          ENOMEM   as stook_alloc(); with STOOK_THISNODE: no memory of that node; with a group and STOOK_SIGNAL_SAFE also:
 *                   the groups' lock was held
 *          EDQUOT   as stook_alloc(), of the group that is charged
 * context: as stook_alloc()
 * locks:   as stook_alloc(), none while args->fail() runs.  Of another node the barn, then node and arena.  With a group
 *          groups, once in STOOK_GROUP_STOCK_MAX / 2 bytes and for each object close to a limit
 * cost:    stook_alloc()'s and a load.  Of another node a lock and its cache misses each
 *          time: a caller that needs many objects allocates them on a thread of that node
 */
STOOK_API void *stook_alloc_with(struct stook_cache *cache, unsigned flags,
                                 const struct stook_alloc_args *args)
    STOOK_NONNULL(1, 3) STOOK_WARN_UNUSED;
STOOK_API int stook_alloc_bulk_with(struct stook_cache *cache, unsigned flags, size_t n,
                                    void **objects, const struct stook_alloc_args *args)
    STOOK_NONNULL(1, 5) STOOK_WARN_UNUSED;

/*
 * Free one object of a known cache.
 *
 * NULL is accepted.  It cannot fail.  If the object is found to be free already, or not to be of this cache, a report
 * says so and the process aborts; or the call does nothing (docs/debug.md).  With debug flags, STOOK_CACHE_QUARANTINE,
 * STOOK_CACHE_ZERO_ON_FREE, STOOK_CACHE_ACCOUNT or STOOK_CACHE_NOSHEAF, and in locked mode, this call finds an object of
 * another cache.  Otherwise this CPU's sheaf takes it unseen: it is found when it goes on to a slab, unless the cache
 * hands it out before.
 *
 * context: any
 * locks:   none while the CPU's sheaf has room; else barn, node and arena, in turn
 * cost:    as stook_alloc()
 */
STOOK_API void stook_free(struct stook_cache *cache, void *object) STOOK_NONNULL(1) STOOK_NOTHROW;

/*
 * Free any object by its address.
 *
 * That is an object of any cache, of stook_kmalloc(), or of malloc() where that is this library's.  NULL
 * and STOOK_KMALLOC_NONE are accepted.  It cannot fail.  Any other pointer is reported as by stook_free().
 *
 * context: any
 * locks:   as stook_free()
 * cost:    stook_free()'s and one load
 */
STOOK_API void stook_free_any(void *object) STOOK_NOTHROW;

/*
 * Allocate n objects: all of them or none.
 *
 * n = 0 allocates none and succeeds.
 *
 * returns: 0, or -1 and no object was allocated
 * errors:  ENOMEM, EINVAL, EDQUOT as stook_alloc(); EINVAL also if no array has n pointers
 * context: any with STOOK_SIGNAL_SAFE, else not in a signal handler
 * locks:   as stook_alloc()
 * cost:    about 3 ns and 0.2 ns an object while the CPU's sheaf holds n
 */
STOOK_API int stook_alloc_bulk(struct stook_cache *cache, unsigned flags, size_t n, void **objects)
    STOOK_NONNULL(1) STOOK_WARN_UNUSED;

/*
 * Free n objects of one cache, in any order.
 *
 * NULL entries are skipped.  The contents of the array are unspecified afterwards.  If no array has n pointers, a
 * message says so and the process aborts.  Other objects are found as by stook_free().
 *
 * context: any
 * locks:   as stook_free()
 * cost:    about 3 ns and 0.2 ns an object while the CPU's sheaf has room
 */
STOOK_API void stook_free_bulk(struct stook_cache *cache, size_t n, void **objects)
    STOOK_NONNULL(1) STOOK_NOTHROW;

/*
 * Bytes of any object of this library that the caller may use.
 *
 * They are at least the requested bytes, and exactly the object's size if the cache has a constructor or
 * destructor.  With red zones or a quarantine they are exactly what was asked for: no byte of them is reported.  A pointer
 * that is of no object is reported as by stook_free_any().  With debug flags or a quarantine so is an object that is free,
 * and a pointer into one; otherwise the answer is its cache's.  Compilers know what stook_kmalloc() was asked for: to use more,
 * ask for stook_kmalloc_size() bytes, or resize the object first.
 *
 * returns: the bytes; 0 for NULL, STOOK_KMALLOC_NONE, and what was reported
 * context: any
 * locks:   none
 * cost:    some loads
 */
STOOK_API size_t stook_usable_size(const void *object);

/* ---- inspection --------------------------------------------------------------------------- */

/*
 * The size of the objects that the cache was made with.
 *
 * context: any
 * locks:   none
 */
STOOK_API size_t stook_cache_object_size(const struct stook_cache *cache) STOOK_NONNULL(1);

/*
 * The name that the cache was made with, up to STOOK_NAME_MAX bytes.
 *
 * returns: the library's string, valid until the cache is destroyed
 * context: any
 * locks:   none
 */
STOOK_API const char *stook_cache_name(const struct stook_cache *cache) STOOK_NONNULL(1);

/*
 * The cache of an object.
 *
 * malloc's and stook_kmalloc()'s caches are caches too; whole pages have none.  Any pointer is accepted, also
 * one into an object.
 *
 * returns: the cache, or NULL if the pointer is in no cache's memory; errno is not set
 * context: any
 * locks:   none
 * cost:    two loads
 */
STOOK_API struct stook_cache *stook_cache_of(const void *object);

/*
 * The oldest cache with a name, among those that stook_cache_each() visits.
 *
 * The caller guarantees that no thread destroys that cache meanwhile.
 *
 * returns: the cache, or NULL
 * errors:  ENOENT   there is none
 *          EDEADLK  called by a handler that interrupted the library
 * context: not in a signal handler
 * locks:   cache list
 * cost:    one comparison a cache
 */
STOOK_API struct stook_cache *stook_cache_by_name(const char *name) STOOK_NONNULL(1);

/*
 * Call fn(cache, arg) for each cache, the oldest first, until fn returns other than 0.
 *
 * These are the program's caches, and those of stook_kmalloc() and of libstook-malloc.
 * The cache stays while fn runs: a thread that destroys it waits.  fn runs without any lock of the library
 * and may make any call, but must not destroy its cache.  A cache that is made or destroyed
 * meanwhile may be left out.
 *
 * errors:  EDEADLK  called by a handler that interrupted the library
 * context: not in a signal handler
 * locks:   cache list, between the calls of fn
 * cost:    the lock is taken twice for each cache
 */
STOOK_API int stook_cache_each(int (*fn)(struct stook_cache *cache, void *arg), void *arg)
    STOOK_NONNULL(1);

/*
 * Call fn(object, arg) for each live object of a cache, until fn returns other than 0.
 *
 * The call first flushes sheaves and barns, as stook_cache_shrink() does, so that it does not take their
 * free objects for live ones.  Objects in prefilled sheaves, in reserves of pools, and objects that wait for
 * an RCU count as live.
 *
 * If no other thread uses the cache meanwhile, fn gets each live object once, and no other.  An isolated CPU
 * may keep free objects in its sheaf, which fn gets too.  If other threads use the cache, fn gets
 * each object once that is live all the time.  It may get other objects too, even free ones, so it must not
 * read objects then: it may use their addresses only.  fn runs without any lock of the library, and may free
 * its object.
 *
 * errors:  EDEADLK  called by a handler that interrupted the library
 *          EINVAL   the cache was destroyed
 *          ENOTSUP  the library was built without marks (-DSTOOK_ENCODED_LINKS=OFF)
 * context: not in a signal handler
 * locks:   barns, nodes, arenas, in turn; none while fn runs
 * cost:    stook_cache_shrink()'s, a load a page of all caches, and a load an object of this one
 */
STOOK_API int stook_cache_walk(struct stook_cache *cache, int (*fn)(void *object, void *arg),
                               void *arg) STOOK_NONNULL(1, 2);

/*
 * The node of an object's memory, by the numbers of the topology.
 *
 * The object is of any cache, or whole pages by their first byte.
 *
 * returns: the node, or -1
 * errors:  EINVAL   no object of this library
 * context: any
 * locks:   none
 * cost:    some loads
 */
STOOK_API int stook_node_of(const void *object);

/* ---- capacity and budgets (docs/capacity.md) --------------------------------------------------- */

/*
 * Change how many objects a sheaf of the cache holds.
 *
 * That is 1 or more, or STOOK_CAPACITY_DEFAULT.  Safe beside any other call.  Sheaves that are made from now on
 * have the new capacity; full ones of the old capacity are used up first.  If the capacity falls, the call
 * flushes the sheaves of all CPUs, as stook_cache_shrink() does; a sheaf that a thread is just installing,
 * or of an isolated CPU, stays until it is used.  The limits of barns follow the capacity.  An adaptive
 * cache starts again from it.
 *
 * errors:  E2BIG    capacity is beyond STOOK_SHEAF_CAPACITY_MAX
 *          EINVAL   the cache was destroyed
 *          ENOTSUP  the cache has STOOK_CACHE_NOSHEAF
 * context: not in a signal handler
 * locks:   barns, nodes, arenas, in turn
 * cost:    a microsecond; if the capacity falls some membarriers a used CPU
 */
STOOK_API int stook_cache_set_capacity(struct stook_cache *cache, unsigned capacity)
    STOOK_NONNULL(1);

/*
 * Set the budget of all caches: bytes that they hold in barns.
 *
 * The sum has the objects in full sheaves.  It has the bytes that each barn was granted in advance, at most
 * 64 KiB a barn.  It has the bytes that the sheaves of adaptive caches can hold beyond their first capacity.
 * The sum is never more than the budget.  It has no other sheaves of CPUs, which hold at most two capacities
 * for each CPU and cache, and no free objects in slabs.
 *
 * The budget starts with 256 MiB, or STOOK_CACHED_MAX of the environment (a number, with k, M or G).  Beyond it
 * barns refuse full sheaves, whose objects return to their slabs.  If barns hold more
 * than the new budget, the call flushes barns until they do not.  0: barns hold nothing.  STOOK_UNLIMITED:
 * only the barns' own limits hold.
 *
 * returns: 0
 * context: not in a signal handler
 * locks:   all, in turn
 */
STOOK_API int stook_cached_bytes_set_max(size_t bytes);

/* ---- the library ----------------------------------------------------------------------------- */

/*
 * Write a table or a JSON object of all caches to a file descriptor.
 *
 * docs/report.md explains the columns.  Resident are the pages of the slabs; in use, active objects times
 * their size; cached, free objects times their size; wasted, the rest.  Totals and the per-CPU mode follow
 * the caches.  Sums may be off by the objects that move meanwhile.  The call needs no
 * memory.  The table leaves out caches without slabs unless STOOK_REPORT_ALL is
 * added to the format.
 *
 * errors:  EINVAL   unknown format
 *          EDEADLK  called by a handler that interrupted the library
 *          others   as write(2)
 * context: not in a signal handler; beside any other call
 * locks:   all but slots, in turn
 */
#define STOOK_REPORT_TABLE 0u
#define STOOK_REPORT_JSON 1u
#define STOOK_REPORT_ALL 0x10u
STOOK_API int stook_report(int fd, unsigned format);

/*
 * How the process runs, "rseq" or "locked", and why.
 *
 * The mode is fixed when the library starts; this call starts it if no other call did.
 *
 * returns: the mode, and in *why the reason unless why is NULL; both are static strings
 * context: not in a signal handler
 * locks:   none
 * cost:    some loads once the library has started
 */
STOOK_API const char *stook_mode(const char **why);

/*
 * The version of the library that runs.
 *
 * STOOK_VERSION_STRING and STOOK_VERSION are those of the headers.
 *
 * returns: a static string such as "0.3.0"
 * context: any
 * locks:   none
 */
STOOK_API const char *stook_version(void);

/*
 * Send the library's messages to a function of the program instead of standard error.
 *
 * fn(level, text, length, arg) gets one message without "stook: " and without its last newline, NUL-terminated
 * and of `length` bytes, which it must not keep.  A report of a corruption has several lines, of which the first
 * names it.  fn NULL: to standard error again.  After STOOK_MESSAGE_FATAL
 * the process aborts when fn returns.
 *
 * fn runs in the thread that detected the problem, perhaps in a signal handler, and with locks of the
 * library held.  So fn may make only async-signal-safe calls, none of this library, and not malloc() if that
 * is this library's.  Reports (stook_report() and others) are no messages.
 *
 * context: not in a signal handler, and in one thread at a time; a message that is being sent may still go
 *          to the previous function
 * locks:   none
 */
#define STOOK_MESSAGE_WARNING 0
#define STOOK_MESSAGE_FATAL 1
typedef void (*stook_message_fn)(int level, const char *text, size_t length, void *arg);
STOOK_API void stook_message_set(stook_message_fn fn, void *arg);

STOOK_C_END

#if defined(STOOK_SITES) && defined(__GNUC__)
/* The arguments with this call's site. */
#define STOOK_SITE                                                                                 \
    (__extension__({                                                                               \
        static struct stook_site stook_site_ = {__FILE__, __func__, __LINE__, 0};                  \
        static const struct stook_alloc_args stook_args_ = {                                       \
            sizeof(struct stook_alloc_args), &stook_site_, NULL, NULL, NULL, 0, 0};                \
        &stook_args_;                                                                              \
    }))
#define stook_alloc(...) stook_alloc_with(__VA_ARGS__, STOOK_SITE)
#define stook_alloc_bulk(...) stook_alloc_bulk_with(__VA_ARGS__, STOOK_SITE)
#endif

#endif /* STOOK_STOOK_H */
