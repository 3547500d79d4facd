/* SPDX-License-Identifier: MIT */
/*
 * trace_read.h - a trace that a program wrote (trace/trace_format.h), event by event: the chunks of all
 * threads merged by time.
 *
 * The file is mapped and never held in memory as a whole.  trace_open() goes through all of it once,
 * so that whatever is wrong is said before anything is played, with the place in the file.  Nothing in
 * the file is believed: a file that changes while it is read can give other events, and no more.
 */
#ifndef STOOK_LAB_TRACE_READ_H
#define STOOK_LAB_TRACE_READ_H

#include "lab/queue.h"

#include "trace/trace_format.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    TRACE_CPUS_MAX = 1 << 16,
    TRACE_CACHES_MAX = 1 << 16,
    TRACE_LARGE = -1, /* instead of a class: an object that no cache had */
};

/* A cache as a record describes it. */
struct trace_class {
    uint32_t number, size, stride, align;
    int same; /* the class of another description of that number, or -1 */
    char name[TRACE_RECORD_MAX];
};

struct trace_event {
    uint64_t time;    /* nanoseconds since the trace's start */
    uint64_t address; /* in eighths; never 0 */
    uint64_t
        bytes; /* of a large object that is allocated; of a class's what was asked for, if told */
    unsigned align;  /* that was asked for beyond malloc's own; else 0 */
    unsigned thread; /* from 0, in the order of their numbers */
    unsigned cpu;    /* as recorded */
    int class;       /* allocations: the number of a struct trace_class, or TRACE_LARGE */
    bool free;
};

/* What going through the file has shown. */
struct trace_summary {
    uint64_t allocs, frees; /* large objects' included */
    uint64_t large, large_bytes;
    uint64_t bytes;          /* of records */
    uint64_t chunks_missing; /* claimed, and not in the file */
    uint64_t begin, end;     /* of the first event, and of the last */
    unsigned cpus;           /* that events are of */
};

struct trace_chunk_at {
    uint32_t thread;
    uint64_t chunk;
};

/* Where one thread's records are being read; what is next is in `event`. */
struct trace_cursor {
    uint64_t chunk, chunks; /* of trace->chunk: the next to be opened; behind its last */
    uint64_t at, end;       /* in the file */
    enum trace_next { TRACE_NEXT_CACHE, TRACE_NEXT_FREE, TRACE_NEXT_ALLOC } next;
    struct trace_event event; /* class: of an allocation the number of its cache */
};

struct trace {
    struct trace_header header; /* program[] ends */
    struct trace_summary summary;
    unsigned threads, classes;
    struct trace_class *class;

    /* The reader's own. */
    const unsigned char *map;
    uint64_t size;
    bool mapped;
    struct trace_chunk_at *chunk; /* by thread */
    struct trace_cursor *cursor;  /* by thread */
    struct queue queue;           /* threads with events, the next first */
    int *head, *now;              /* by number of a cache: its first class, and what it is now */

    /* What is wrong, and where; "" while nothing is. */
    char error[160];
};

/* False: trace->error says why.  trace_close() is needed either way. */
bool trace_open(struct trace *trace, const char *file);
/* The same of a file that is in memory already. */
bool trace_use(struct trace *trace, const void *file, uint64_t bytes);
void trace_close(struct trace *trace);

/* To the beginning; false: trace->error. */
bool trace_rewind(struct trace *trace);
/*
 * The next event of all threads: by time, frees first, a thread's own in its order.  False: there is
 * none, or trace->error.
 */
bool trace_next(struct trace *trace, struct trace_event *event);

#endif
