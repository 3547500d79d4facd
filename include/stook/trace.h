/* SPDX-License-Identifier: MIT */
/*
 * trace.h - record every allocation and every free, with thread, CPU and time, in a file.
 *
 * `stook run --trace FILE` does it for an unmodified program; `stook lab trace` replays the file under other
 * designs and on other machines.  docs/traces.md has the format, the events and the cost.
 *
 * Environment, read once at start, ignored with raised privileges:
 *   STOOK_TRACE=FILE        a trace from the start to the process's end; it replaces an older trace,
 *                           unless a process is writing that one: then this process writes none.
 *                           %p is the process number: each process writes one, forked children included
 *   STOOK_TRACE_LIMIT=1G    the largest size of the file; further events are counted as lost
 *   STOOK_PID=N             without %p, only process N (stook run sets its own number, which exec keeps)
 */
#ifndef STOOK_TRACE_H
#define STOOK_TRACE_H

#include <stook/stook.h>

#include <stddef.h>

STOOK_C_BEGIN

/* A limit that suits most traces (STOOK_TRACE sets it), and the least one. */
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

#endif /* STOOK_TRACE_H */
