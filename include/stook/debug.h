/* SPDX-License-Identifier: MIT */
/*
 * debug.h - reports of corruption, and the calls that allocated and freed an object: docs/debug.md.
 */
#ifndef STOOK_DEBUG_H
#define STOOK_DEBUG_H

#include <stook/stook.h>

#include <stddef.h>
#include <stdint.h>

STOOK_C_BEGIN

/*
 * Switch debug flags of a cache that is in use.
 *
 * These are STOOK_CACHE_DEBUG_TRACE and STOOK_CACHE_DEBUG_FAIL, which change nothing of its layout.  `on` is 0 or 1.
 * The cache has had debug flags since its creation, any of them.
 *
 * returns: 0, or -1
 * errors:  EINVAL      another flag; the cache was destroyed
 *          EOPNOTSUPP  the cache was created without debug flags: its calls are not checked
 * context: any
 * locks:   none
 */
STOOK_API int stook_cache_debug_set(struct stook_cache *cache, unsigned flags, int on)
    STOOK_NONNULL(1);

/* The call that allocated or freed an object. */
struct stook_object_track {
    size_t size;
    size_t requested;   /* the requested size if it is known; else the object's size */
    uint64_t age;       /* nanoseconds since then */
    uint64_t stack[24]; /* return addresses, innermost first */
    unsigned depth;     /* how many */
    int thread;         /* the kernel's number of the thread */
    int cpu;
};

/* Which of the two: the last allocation, or the last free. */
#define STOOK_TRACK_ALLOC 0
#define STOOK_TRACK_FREE 1

/*
 * Say which call allocated or freed an object last.
 *
 * Its cache has STOOK_CACHE_DEBUG_USER.  The object may be free, and the pointer may point to any byte of it.  If another
 * thread allocates or frees the object at the same time, the result may be a mixture.
 *
 * returns: 0, or -1 and *track is not changed
 * errors:  EINVAL   track->size is not a sizeof, or `which` is none of the two
 *          ENOENT   no object of a cache with STOOK_CACHE_DEBUG_USER, or it never was
 * context: any
 * locks:   none
 */
STOOK_API int stook_object_track(const void *object, int which, struct stook_object_track *track)
    STOOK_NONNULL(3);

/* ---- traces --------------------------------------------------------------------------------- */

/*
 * Record every allocation and every free, with thread, CPU and time, in a file.
 *
 * `stook run --trace FILE` does it for an unmodified program; `stook lab trace` replays the file under other
 * designs and on other machines.  docs/traces.md has the format, the events and the cost.
 *
 * Environment, read once at start, ignored with raised privileges:
 *   STOOK_TRACE=[SIZE,]FILE  a trace from the start to the process's end; it replaces an older trace,
 *                            unless a process is writing that one: then this process writes none.
 *                            %p is the process number: each process writes one, forked children included.
 *                            SIZE is the largest size of the file, 1G by default; further events are
 *                            counted as lost
 *   STOOK_PID=N              without %p, only process N (stook run sets its own number, which exec keeps)
 */

/* A limit that suits most traces, the default of STOOK_TRACE, and the least one. */
#define STOOK_TRACE_LIMIT (1ul << 30)
#define STOOK_TRACE_LIMIT_MIN (4096ul + 65536)

/*
 * Begin a trace of all caches and of malloc.
 *
 * The file `path` is made anew with mode 0600.  A regular file of that name is replaced, unless a process writes
 * a trace to it; a symbolic link is not followed.  It grows to `limit` bytes at most:
 * STOOK_TRACE_LIMIT is a good choice; STOOK_UNLIMITED is allowed.  Calls of other threads that have begun
 * may be missing; events for which there is no room are counted as lost.  The trace ends with stook_trace_stop(), or
 * with the process, however that ends.  A forked child is not traced, and may begin a trace of its own.
 *
 * errors:  EBUSY    this process is traced already, or another one writes to that file
 *          EEXIST   something that is no regular file has that name
 *          EINVAL   a limit below STOOK_TRACE_LIMIT_MIN, or no path
 *          ENOMEM   out of memory
 *          others   the file cannot be made: as open(2), ftruncate(2), mmap(2)
 * context: not in a signal handler
 * locks:   cache list
 * cost:    none while off; on: docs/traces.md; calls that are inlined become calls
 */
STOOK_API int stook_trace_start(const char *path, size_t limit);

/*
 * End the trace.
 *
 * When the call returns, the file has all recorded events, and is closed.
 *
 * errors:  EINVAL   this process is not traced
 * context: not in a signal handler
 * locks:   cache list, while other threads end their records
 */
STOOK_API int stook_trace_stop(void);

STOOK_C_END

#endif /* STOOK_DEBUG_H */
