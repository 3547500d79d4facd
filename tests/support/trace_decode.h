/* SPDX-License-Identifier: MIT */
/*
 * trace_decode.h - a trace as the library wrote it (trace/trace_format.h), read by the book: whatever
 * is not as the format says ends the test with a message.
 */
#ifndef TESTS_SUPPORT_TRACE_DECODE_H
#define TESTS_SUPPORT_TRACE_DECODE_H

#include "trace/trace_format.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct trace_decoded_event {
    uint64_t time,
        bytes;      /* since the trace's start; of a large object, or that malloc was asked for */
    uint64_t align; /* that malloc was asked for */
    uintptr_t address;
    uint32_t thread, cpu, cache;
    bool alloc;
    size_t place; /* in the file */
};

struct trace_decoded_cache {
    bool known;
    uint64_t size, stride, align;
    char name[TRACE_RECORD_MAX];
};

struct trace_decoded {
    struct trace_header header;
    struct trace_decoded_event *event; /* by time, frees first */
    size_t n;
    struct trace_decoded_cache *cache; /* by number, the last that was described; 65536 of them */
    uint64_t allocs, frees;
    /* In the order of time: objects that were not freed, frees of unknown objects, addresses that were
     * allocated twice. */
    uint64_t live, unknown, twice;
};

void trace_decode(struct trace_decoded *t, const char *path);
void trace_decoded_free(struct trace_decoded *t);

#endif
