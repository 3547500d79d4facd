/* SPDX-License-Identifier: MIT */
/*
 * trace_play.h - `stook lab trace`: a trace replayed under one design on one machine.  Each cache of the
 * trace is an instance of the design's, all of them at one time; each recorded thread is an actor.
 */
#ifndef STOOK_LAB_TRACE_PLAY_H
#define STOOK_LAB_TRACE_PLAY_H

#include "lab/sweep.h"
#include "lab/timing.h"
#include "lab/trace_read.h"

enum { TRACE_TOPOLOGIES = 16 };

/* Where a recorded thread runs (docs/lab-traces.md). */
enum trace_map { TRACE_BY_THREAD, TRACE_BY_CPU };
extern const char *const trace_maps[];

struct trace_options {
    const char *topology[TRACE_TOPOLOGIES], *name[TRACE_TOPOLOGIES]; /* and what it is called */
    unsigned topologies;
    unsigned designs; /* bit per sweep_series */
    enum trace_map map;
    unsigned capacity; /* objects a sheaf; 0: the design's choice */
    int order;         /* of slabs; -1: the design's choice */
    const struct timing_costs *costs;
    uint64_t gap; /* nanoseconds between two events at most, whatever was recorded */
    bool json;
};

/* Of one replay, up to the trace's last event. */
struct trace_result {
    unsigned cpus, nodes;   /* of the machine */
    uint64_t allocs, frees; /* that were replayed */
    uint64_t unknown;       /* frees of objects that no record allocated */
    uint64_t again;  /* addresses that were handed out once more: a free in between is not in it */
    uint64_t moves;  /* events on another recorded CPU than the thread's one before */
    uint64_t remote; /* frees by another thread than the one that allocated */
    uint64_t live, live_peak; /* bytes of objects that are out: at the end, at most */
    uint64_t live_objects;
    uint64_t large_live, large_peak;
    uint64_t event[LAB_EVENTS];
    uint64_t lock[2][3];           /* takings: of barns, of lists; by own-node, near and far CPUs */
    uint64_t slabs;                /* made */
    uint64_t held, peak;           /* bytes of slabs at the end, and at most */
    uint64_t mean_held, mean_live; /* averages over all operations */
    uint64_t sheaves;              /* bytes of sheaves at the end */
    double spent[TIMING_SPENT];
};

/* Of one cache in it. */
struct trace_class_result {
    uint64_t allocs, live, live_peak, held, peak, slabs, outside;
    unsigned stride, order, slab_objects, capacity;
};

/*
 * In a process of its own, whose topology is set.  `class` has trace->classes entries, zero for those that
 * had no objects.  A status.
 */
int trace_play(struct trace *trace, const struct trace_options *options,
               const struct sweep_series *series, struct trace_result *result,
               struct trace_class_result *class);

/* trace_show.c: what there is to say of all of them; a status. */
struct trace_row {
    const char *topology, *name;
    const struct sweep_series *series;
    struct trace_result result;
    struct trace_class_result *class;
};
int trace_show(const struct trace *trace, const char *file, const struct trace_options *options,
               const struct trace_row *row, unsigned rows);

#endif
