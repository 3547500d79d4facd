/* SPDX-License-Identifier: MIT */
/*
 * trace_writer.h - traces made by tests: records of threads into chunks of a file in memory.
 */
#ifndef TESTS_SUPPORT_TRACE_WRITER_H
#define TESTS_SUPPORT_TRACE_WRITER_H

#include "trace/trace_format.h"

#include <stdlib.h>
#include <string.h>

enum { TRACE_WRITER_THREADS = 8, TRACE_WRITER_MAX = 1 << 20 };

struct trace_writer {
    unsigned char *file;
    struct trace_header *header;
    struct {
        struct trace_chunk *chunk; /* NULL: none is open */
        uint64_t time, address;
    } thread[TRACE_WRITER_THREADS];
};

static inline void trace_writer_start(struct trace_writer *w, uint32_t chunk_bytes)
{
    memset(w, 0, sizeof(*w));
    w->file = calloc(1, TRACE_WRITER_MAX);
    w->header = (void *)w->file;
    *w->header = (struct trace_header){.version = TRACE_VERSION,
                                       .header_bytes = 128,
                                       .chunk_bytes = chunk_bytes,
                                       .cpus = 2,
                                       .pid = 7,
                                       .ended = 1,
                                       .program = "made"};
    memcpy(w->header->magic, TRACE_MAGIC, sizeof(w->header->magic));
}

static inline uint64_t trace_writer_bytes(const struct trace_writer *w)
{
    return w->header->header_bytes + w->header->chunks * w->header->chunk_bytes;
}

static inline struct trace_chunk *trace_writer_chunk(struct trace_writer *w, unsigned thread,
                                                     uint64_t time, uint64_t address)
{
    struct trace_chunk *chunk = (void *)(w->file + trace_writer_bytes(w));

    w->header->chunks++;
    chunk->thread = thread + 1;
    chunk->time = w->thread[thread].time = time;
    chunk->address = w->thread[thread].address = address;
    chunk->cpu = thread;
    return w->thread[thread].chunk = chunk;
}

static inline void trace_writer_byte(struct trace_writer *w, unsigned thread, unsigned byte)
{
    struct trace_chunk *chunk = w->thread[thread].chunk;

    ((unsigned char *)(chunk + 1))[chunk->used++] = (unsigned char)byte;
}

static inline void trace_writer_number(struct trace_writer *w, unsigned thread, uint64_t n)
{
    for (; n >= 128; n >>= 7)
        trace_writer_byte(w, thread, (unsigned)(n & 127) | 128);
    trace_writer_byte(w, thread, (unsigned)n);
}

/* A record's kind, in a chunk with room for `room` bytes. */
static inline void trace_writer_kind(struct trace_writer *w, unsigned thread, unsigned kind,
                                     unsigned room)
{
    struct trace_chunk *chunk = w->thread[thread].chunk;

    if (!chunk || chunk->used + room > w->header->chunk_bytes - sizeof(*chunk))
        trace_writer_chunk(w, thread, w->thread[thread].time, w->thread[thread].address);
    trace_writer_byte(w, thread, kind);
}

static inline void trace_writer_event(struct trace_writer *w, unsigned thread, unsigned kind,
                                      uint64_t time, uint64_t address)
{
    uint64_t delta;

    trace_writer_kind(w, thread, kind, 48);
    trace_writer_number(w, thread, time - w->thread[thread].time);
    delta = address - w->thread[thread].address;
    trace_writer_number(w, thread, delta << 1 ^ (0 - (delta >> 63)));
    w->thread[thread].time = time;
    w->thread[thread].address = address;
}

/* Of cache 0 with bytes. */
static inline void trace_writer_alloc(struct trace_writer *w, unsigned thread, uint64_t time,
                                      uint64_t address, unsigned cache, uint64_t bytes)
{
    trace_writer_event(w, thread, TRACE_ALLOC, time, address);
    trace_writer_number(w, thread, cache);
    if (cache == 0)
        trace_writer_number(w, thread, bytes);
}

/* Of one of malloc's classes, which was asked for `bytes`; align 0: without an alignment. */
static inline void trace_writer_asked(struct trace_writer *w, unsigned thread, uint64_t time,
                                      uint64_t address, unsigned cache, uint64_t bytes,
                                      unsigned align)
{
    trace_writer_event(w, thread, TRACE_ASKED, time, address);
    trace_writer_number(w, thread, cache);
    trace_writer_number(w, thread, bytes << 1 | (align > 0));
    if (align > 0)
        trace_writer_number(w, thread, (unsigned)__builtin_ctz(align));
}

static inline void trace_writer_free(struct trace_writer *w, unsigned thread, uint64_t time,
                                     uint64_t address)
{
    trace_writer_event(w, thread, TRACE_FREE, time, address);
}

static inline void trace_writer_cpu(struct trace_writer *w, unsigned thread, unsigned cpu)
{
    trace_writer_kind(w, thread, TRACE_CPU, 8);
    trace_writer_number(w, thread, cpu);
}

static inline void trace_writer_cache(struct trace_writer *w, unsigned thread, unsigned cache,
                                      uint64_t size, uint64_t stride, uint64_t align,
                                      const char *name)
{
    trace_writer_kind(w, thread, TRACE_CACHE, 48 + (unsigned)strlen(name));
    trace_writer_number(w, thread, cache);
    trace_writer_number(w, thread, size);
    trace_writer_number(w, thread, stride);
    trace_writer_number(w, thread, align);
    trace_writer_number(w, thread, strlen(name));
    for (; *name; name++)
        trace_writer_byte(w, thread, (unsigned char)*name);
}

static inline void trace_writer_end(struct trace_writer *w)
{
    free(w->file);
}

#endif
