/* SPDX-License-Identifier: MIT */
/*
 * trace_record.h - one event as the bytes of a trace (trace_format.h), at the end of a thread's chunk.
 */
#ifndef STOOK_TRACE_TRACE_RECORD_H
#define STOOK_TRACE_TRACE_RECORD_H

#include "trace/trace_format.h"
#include "slab/cache.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum {
    TRACE_NUMBER_MAX = 10, /* bytes of a number of 64 bits */
    /* An event, with the CPU and the cache before it. */
    TRACE_EVENT_MAX = TRACE_RECORD_MAX + 2 * (1 + 5 * TRACE_NUMBER_MAX),
};

/*
 * What a thread of the trace is: an open chunk and where it is there.  A thread that has ended leaves
 * its own, with the number and the rest of the chunk, to one that begins: so there are as many chunks
 * begun as there were threads at one time.
 *
 * Its thread owns it while `busy`; the thread that ends the trace waits until it is not.
 */
struct trace_writer {
    _Atomic uint32_t busy;
    uint32_t on;     /* the trace that the rest is of; 0: none yet */
    uint32_t number; /* of the chunk's thread */
    pid_t thread;    /* under the gate's lock */
    struct trace_chunk *chunk;
    uint32_t used, cpu;
    uint64_t time, address; /* of the last record; time since the trace's start */
} __attribute__((aligned(64)));

/* What one call tells. */
struct trace_event {
    enum trace_kind kind;
    const struct stook_cache *cache; /* of allocations; NULL: a large object */
    size_t bytes;                    /* of a large object */
    size_t asked, alignment;         /* of a class of malloc; 0: unknown */
    uint64_t time;
    uint32_t cpu;
    bool announce; /* the cache is not known to the trace yet, that we have seen */
};

/* At the end of the writer's chunk, which has room for TRACE_EVENT_MAX bytes.  By a writer that is busy. */
void trace_record_put(struct trace_writer *writer, struct trace_event *event, uint64_t address);

#endif
