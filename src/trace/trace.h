/* SPDX-License-Identifier: MIT */
/*
 * trace.h - records every allocation and free with its thread, CPU and time (trace_format.h).
 *
 * While there is a trace all caches are closed, since they are watched: their calls go through base/hooks.h, and from
 * there to this file.
 *
 * Each thread writes to a chunk of the file that it has mapped.  It exchanges a full chunk for the next one under a lock
 * that no signal handler waits for.  If a handler interrupted its thread while that wrote a record, its events are counted
 * as lost.  So are events that find no room.  The records outlive the process, however it ends.
 */
#ifndef STOOK_TRACE_TRACE_H
#define STOOK_TRACE_TRACE_H

#include "slab/cache.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Begins a trace of this process: 0, or an errno.  EBUSY: this process writes a trace already, or another one
 * writes that file.  Nothing is recorded before caches are closed for it.  The caller makes this call and the next two one
 * at a time, and not from signal handlers.
 */
int trace_begin(const char *path, uint64_t limit);
/* Ends the trace: when this returns, the file is complete.  False: there was none. */
bool trace_end(void);
/* Between these two, in the process that called them. */
extern atomic_bool trace_active __attribute__((visibility("hidden")));
static inline bool trace_is_active(void)
{
    return atomic_load_explicit(&trace_active, memory_order_relaxed);
}
/* In the forked child, which has no other thread and is not traced: true if the parent was traced. */
bool trace_child(void);

/* Records objects of one cache that were allocated.  Any context; errno is kept, as by all that follow. */
void trace_alloc(const struct stook_cache *cache, void *const *objects, size_t n);
/*
 * The next trace_alloc() of this thread is of a class of malloc.  The program requested `size` bytes, aligned to `align`
 * if that is not 0.  Size 0 cancels this.
 */
void trace_asked(size_t size, size_t align);
void trace_alloc_large(void *object, size_t bytes);

/* Records objects that are about to be freed; NULL entries are skipped. */
void trace_free(void *const *objects, size_t n);

/* For a free that may fail: trace_time() before it, trace_free_at() with that time once it has succeeded. */
uint64_t trace_time(void);
void trace_free_at(void *object, uint64_t time);

#endif
