/* SPDX-License-Identifier: MIT */
/*
 * trace.h - writes down which object was allocated and freed, where and when (trace_format.h).
 *
 * A cache that is traced has CACHE_CLOSED_TRACE: its calls go by the hooks (account.h), which come
 * here.  Nobody else is told anything, tests anything or pays anything.
 *
 * Each thread writes to a chunk of the file that it has mapped; a full one is exchanged for the next
 * under a lock that no handler waits for: one that interrupts its own thread's record counts what it
 * would have written as lost, as does whoever finds no room.  What was written outlives the process,
 * however that ends.
 */
#ifndef STOOK_TRACE_TRACE_H
#define STOOK_TRACE_TRACE_H

#include "slab/cache.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Begins a trace of this process: 0, or an errno.  EBUSY: one is being written, by this process or,
 * to that file, by another.  Nothing is recorded before caches are closed for it.  These three: not
 * from handlers, one at a time.
 */
int trace_begin(const char *path, uint64_t limit);
/* Ends it: when this returns the file is complete.  False: there was none. */
bool trace_end(void);
/* The forked child, which has no other thread: true when the parent was traced.  It is not. */
bool trace_child(void);

/* Objects that the caller has got, of one cache; of a large object (no cache) its bytes.  Any context;
 * errno is kept, as by all of these. */
void trace_alloc(const struct stook_cache *cache, void *const *objects, size_t n);
void trace_alloc_large(void *object, size_t bytes);

/* Objects that are about to go; NULL entries are skipped. */
void trace_free(void *const *objects, size_t n);

/* For an object of which it is only known afterwards that it went: the time before, and then. */
uint64_t trace_time(void);
void trace_free_at(void *object, uint64_t time);

#endif
