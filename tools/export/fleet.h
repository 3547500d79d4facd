/* SPDX-License-Identifier: MIT */
/*
 * fleet.h - the processes of this host on Stook, as numbers to be exported: read from outside, and bounded.
 *
 * Of processes, of the caches of each and of its groups at most so many have rows of their own; the rest are summed up
 * in one row "other".  Which ones have rows is decided by size at first, and then kept as long as they exist: a
 * counter's row must not change its meaning from one reading to the next.
 */
#ifndef STOOK_EXPORT_FLEET_H
#define STOOK_EXPORT_FLEET_H

#include "look/heap.h"

#include <stdio.h>

enum {
    FLEET_SLABS_MADE,
    FLEET_SLABS_GONE,
    FLEET_LIST_LOCKS,
    FLEET_BARN_GETS,
    FLEET_BARN_GET_FAILS,
    FLEET_BARN_PUTS,
    FLEET_BARN_PUT_FAILS,
    FLEET_CACHE_EVENTS,
    FLEET_REFUSED = 0,
    FLEET_RECLAIMS,
    FLEET_GROUP_EVENTS,
    FLEET_EVENTS = FLEET_CACHE_EVENTS,
    FLEET_PIDS = 64,
};
extern const char *const fleet_cache_events[FLEET_CACHE_EVENTS];
extern const char *const fleet_group_events[FLEET_GROUP_EVENTS];

/* A cache, or all caches of a name; "large objects"; "other".  Or a group. */
struct fleet_row {
    char name[HEAP_NAME];
    uint64_t number, parent; /* of groups; 0: "other" */
    bool kept;               /* it had a row of its own at the last reading */
    struct heap_bytes bytes; /* of groups: in_use, its stocks as cached, and peak */
    uint64_t limit, soft;    /* of groups; UINT64_MAX: none */
    uint64_t active, in_sheaves, in_slabs, full, partial, empty;
    uint64_t event[FLEET_EVENTS];
};

/* Rows: the first `shown` are exported by name, and the rest behind them as `other`. */
struct fleet_rows {
    struct fleet_row *row;
    size_t rows, shown;
    bool rest; /* there is or was a rest: `other` is exported */
    struct fleet_row other;
    /* What the rest had counted, and what `other` has said of it: which never falls. */
    uint64_t seen[FLEET_EVENTS], said[FLEET_EVENTS];
};

struct fleet_process {
    int pid;        /* 0: "other" */
    uint64_t start; /* ticks of the kernel: with the number, which process it is */
    bool kept;
    char name[TARGET_NAME], version[24], mode[16];
    uint64_t resident, warm, objects, torn;
    struct heap_bytes bytes;
    struct fleet_rows cache, group;
};

struct fleet {
    unsigned processes_most, caches_most, groups_most;
    bool group_names;
    int pid[FLEET_PIDS]; /* only these; pids 0: all */
    unsigned pids;
    /* Of the last reading. */
    struct fleet_process *process;
    size_t processes, shown;
    struct fleet_process other;
    bool rest;
    unsigned unreadable, late;
    double seconds;
};

/* Reads all there are. */
void fleet_read(struct fleet *fleet);
void fleet_free(struct fleet *fleet);

/* A snapshot of one process, as a gzip of a pprof profile: bytes and objects in use by cache, or by call site
 * (heap_profile.c). */
enum heap_profile {
    HEAP_PROFILE_DONE,
    HEAP_PROFILE_NONE,   /* the process counts no call sites; nothing was written */
    HEAP_PROFILE_FAILED, /* no memory */
};
enum heap_profile heap_profile(struct heap *heap, bool sites, FILE *to);

/* All that the last reading found, as OpenMetrics (open) or in Prometheus's text format (metrics.c). */
void metrics_write(const struct fleet *fleet, bool open, FILE *to);
/* Its processes that have rows as Prometheus's HTTP service discovery has targets, for scrapers of profiles: `host` is
 * this exporter as its client calls it, of characters of hosts only. */
void targets_write(const struct fleet *fleet, const char *host, FILE *to);

#endif
