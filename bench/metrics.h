/* SPDX-License-Identifier: MIT */
/*
 * What a worker may report, in one list for both sides: a worker prints "key=value" pairs on one
 * line, the driver reads them back. A figure that a case does not measure is NAN and is not printed.
 */
#ifndef STOOK_BENCH_METRICS_H
#define STOOK_BENCH_METRICS_H

#include <math.h>

#define METRICS(X)                                                                                 \
    X(alloc_ns)       /* an object, allocation alone */                                            \
    X(free_ns)        /* an object, free alone */                                                  \
    X(pair_ns)        /* an object, allocated and freed */                                         \
    X(kib_per_thread) /* idle threads that ran one at a time */                                    \
    X(kib_at_once)    /* idle threads that ran all at once, less the reserve */                    \
    X(reserve_mib)    /* free memory the allocator says it keeps warm, or may, for everybody */    \
    X(resident_over_live) /* resident memory over the bytes requested and not yet freed */         \
    X(resident_mib)       /* resident memory at the end, less the program's own */                 \
    X(faults_per_1000)    /* minor faults in 1000 allocations and frees */                         \
    X(objects)            /* live at the end */                                                    \
    X(resident_bytes)     /* resident an object, less the program's own */                         \
    X(counted_bytes)      /* slabs and their descriptors an object that they have room for */      \
    X(alloc_p50)          /* nanoseconds of one allocation that so many percent do not exceed */   \
    X(alloc_p99)                                                                                   \
    X(alloc_p999)                                                                                  \
    X(alloc_p9999)                                                                                 \
    X(alloc_p99999)                                                                                \
    X(alloc_max)                                                                                   \
    X(free_p50) /* the same of one free */                                                         \
    X(free_p99)                                                                                    \
    X(free_p999)                                                                                   \
    X(free_p9999)                                                                                  \
    X(free_p99999)                                                                                 \
    X(free_max)                                                                                    \
    X(clock_ns)      /* what reading the clock adds to each */                                     \
    X(slow)          /* operations that took 10 us or more */                                      \
    X(slow_faults)   /* those with a page fault since the slow one before */                       \
    X(slow_switches) /* those with a switch to another thread since the slow one before */         \
    X(addition_ns)   /* what one addition takes now */

enum metric {
#define METRIC_ENUM(name) METRIC_##name,
    METRICS(METRIC_ENUM)
#undef METRIC_ENUM
        METRIC_COUNT
};

/* A worker that cannot run a case says why on stderr and leaves with this status. */
#define WORKER_CANNOT 77

static inline const char *metric_name(enum metric metric)
{
    static const char *const names[METRIC_COUNT] = {
#define METRIC_NAME(name) #name,
        METRICS(METRIC_NAME)
#undef METRIC_NAME
    };
    return names[metric];
}

#endif
