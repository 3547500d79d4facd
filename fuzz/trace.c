/* SPDX-License-Identifier: MIT */
/*
 * A trace of a program, as stook lab trace and stook plan --traces read it.  The events of an accepted trace come in
 * the order of time, twice the same, and as many as the summary says.  Then the library plays it under malloc's classes.
 */
#include "support/fuzz.h"

#include "lab/trace_read.h"
#include "plan/traces.h"

#include <string.h>

/* With AddressSanitizer caches have red zones, and malloc's classes other slabs. */
FUZZ_SETTINGS({"STOOK_DEBUG", "-"})

struct trace_seen {
    uint64_t allocs, frees, digest;
};

static void trace_walk(struct trace *trace, struct trace_seen *seen)
{
    struct trace_event event;
    uint64_t last = 0;

    memset(seen, 0, sizeof(*seen));
    while (trace_next(trace, &event)) {
        FUZZ_CHECK(event.time >= last && event.time <= trace->summary.end);
        FUZZ_CHECK(event.address != 0 && event.thread < trace->threads);
        FUZZ_CHECK(event.cpu < TRACE_CPUS_MAX);
        FUZZ_CHECK(event.class == TRACE_LARGE || (unsigned)event.class < trace->classes);
        last = event.time;
        seen->allocs += !event.free;
        seen->frees += event.free;
        seen->digest = seen->digest * 31 + event.time * 7 + event.address + (uint64_t)event.class;
    }
    FUZZ_CHECK(!*trace->error);
    FUZZ_CHECK(seen->allocs == trace->summary.allocs && seen->frees == trace->summary.frees);
}

static void trace_read_twice(const uint8_t *bytes, size_t n)
{
    struct trace_seen seen, again;
    struct trace trace;

    if (trace_use(&trace, bytes, n)) {
        trace_walk(&trace, &seen);
        FUZZ_CHECK(trace_rewind(&trace));
        trace_walk(&trace, &again);
        FUZZ_CHECK(memcmp(&seen, &again, sizeof(seen)) == 0);
    } else {
        FUZZ_CHECK(*trace.error);
    }
    trace_close(&trace);
}

static void trace_plan(const uint8_t *bytes, size_t n)
{
    static struct traces_table table;
    static bool started;
    struct traces_trace trace;

    if (!started) {
        FUZZ_CHECK(traces_start());
        traces_builtin(&table);
        FUZZ_CHECK(traces_resolve_all(&table));
    }
    started = true;
    if (traces_read(&trace, fuzz_file(bytes, n)))
        traces_show(&trace, 1, &table, bytes[n - 1] & 1);
    traces_free(&trace);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    fuzz_silence();
    if (n == 0)
        return 0;
    trace_read_twice(bytes, n);
    trace_plan(bytes, n);
    return 0;
}
