/* SPDX-License-Identifier: MIT */
/*
 * trace_format.h - the file that a traced program writes (STOOK_TRACE, stook run --trace) and that
 * stook lab trace reads: which object was allocated and freed, where and when.
 *
 * A header, then chunks of one size, in the order in which threads claimed them.  Each chunk is one thread's, and a
 * thread's chunks are in order.  All numbers are little endian.  Records are bytes:
 *
 *   kind (1 byte), then by kind
 *   TRACE_ALLOC  time, address, cache; of cache 0 (a large object) bytes, too
 *   TRACE_ASKED  the same of malloc's classes, then what was asked for: twice the bytes; plus 1 if an
 *                alignment was asked for that exceeds malloc's own, whose log2 follows
 *   TRACE_FREE   time, address
 *   TRACE_CPU    cpu: the thread's records are of that CPU from here on
 *   TRACE_CACHE  cache, size, stride, align, n, and n bytes of its name: before the cache's first
 *                allocation in the file's order of time; perhaps several times; a number whose
 *                cache was destroyed may be another's later
 *
 * time     nanoseconds since the chunk's record before, or since the chunk's own time
 * address  eighths of it less those of the chunk's record before, or of the chunk's own, zigzag; with
 *          TRACE_REST times what is left of one that is no multiple of eight
 * numbers  seven bits a byte, the lowest first, bit 7 set where more follow
 *
 * An allocation is timed when it is done, a free before it is: in the order of time no address is
 * allocated twice.  Among events of equal time, frees come first.  Two events of a thread have the same time only if
 * one call made them.
 *
 * An event is lost if the file is full, or if a signal handler made it while its thread was writing a record.  `lost`
 * counts such events.  A reader therefore meets frees of objects that it does not know, and allocations of addresses
 * that it takes for live.
 */
#ifndef STOOK_TRACE_TRACE_FORMAT_H
#define STOOK_TRACE_TRACE_FORMAT_H

#include <stdint.h>

#define TRACE_MAGIC "STOOKTRC"

enum {
    TRACE_VERSION = 2,
    TRACE_VERSION_LEAST = 1,   /* the same without TRACE_ASKED */
    TRACE_HEADER_BYTES = 4096, /* the first chunk begins there */
    TRACE_CHUNK_BYTES = 65536,
    TRACE_RECORD_MAX = 128, /* bytes of the longest record, a cache's */
};
#define TRACE_REST ((uint64_t)1 << 54)

enum trace_kind { TRACE_END, TRACE_ALLOC, TRACE_FREE, TRACE_CPU, TRACE_CACHE, TRACE_ASKED };

struct trace_header {
    char magic[8];
    uint32_t version, header_bytes, chunk_bytes;
    uint32_t cpus;   /* of the machine; CPUs of records are below */
    uint64_t start;  /* CLOCK_MONOTONIC, in nanoseconds */
    uint64_t chunks; /* that have been claimed; the file may be longer or end before the last */
    uint64_t lost;   /* events */
    uint32_t pid;
    uint32_t ended;   /* 1: the program came to its end; 0: it was killed, or runs */
    char program[64]; /* its name, ending in a zero */
};
_Static_assert(sizeof(struct trace_header) == 120, "the same everywhere");

struct trace_chunk {
    uint32_t thread;  /* numbers from 1; of one that has ended perhaps, and of another since */
    uint32_t used;    /* bytes of records behind this, all of them whole */
    uint64_t time;    /* since `start` */
    uint64_t address; /* in eighths */
    uint32_t cpu;     /* of the first records */
    uint32_t zero;
};
_Static_assert(sizeof(struct trace_chunk) == 32, "the same everywhere");

#endif
