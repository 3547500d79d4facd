/* SPDX-License-Identifier: MIT */
/*
 * stats.h - the memory of the caches, of malloc's large requests and of the process, read for reports.
 *
 * No path of an object counts anything for a report.  A report sums the counts that slabs, barns and slots have anyway,
 * while other threads run.  The sums are racy by the few objects that move meanwhile, but each row is consistent:
 *
 *   resident = in_use + cached + wasted        total = active + in sheaves + in slabs
 *
 *   resident  bytes of the pages of the cache's slabs (pages that no object has touched yet count)
 *   in_use    active objects * object size
 *   cached    free objects * object size: in sheaves, barns and slabs, and those that a quarantine holds back
 *   wasted    bytes that no object can use: padding up to the stride, and the ends of slabs
 */
#ifndef STOOK_WATCH_STATS_H
#define STOOK_WATCH_STATS_H

#include "page/arena.h"
#include "slab/stat.h"

#include <stook/stook.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What rows have and sums add up: the member, and its key in the report's JSON. */
#define STATS_SUMS(X)                                                                              \
    X(active, "active_objects") /* handed to users */                                              \
    X(total, "total_objects")                                                                      \
    X(in_sheaves, "sheaf_objects")   /* free, in sheaves of CPUs and barns, held back */           \
    X(in_slabs, "slab_free_objects") /* free, in partial and empty slabs */                        \
    X(slabs, "slabs")                                                                              \
    X(sheaves, "sheaves") /* with CPUs */                                                          \
    X(barns, "barns")     /* sheaves in barns */                                                   \
    X(resident, "resident_bytes")                                                                  \
    X(in_use, "in_use_bytes")                                                                      \
    X(cached, "cached_bytes")                                                                      \
    X(wasted, "wasted_bytes")

struct stats_cache {
    char name[STOOK_NAME_MAX + 1];
    uint64_t object_size, align;
    uint32_t stride, order, slab_objects; /* slab_objects: in a slab of `order` */
    uint32_t capacity;                    /* objects a sheaf; 0: the cache has no sheaves */
    bool internal;                        /* the library's own */
#define STATS_MEMBER(member, key) uint64_t member;
    STATS_SUMS(STATS_MEMBER)
#undef STATS_MEMBER
    uint64_t peak; /* of resident, since the start */
    bool counted;  /* it counts its events, or did; else the counters are 0 */
    uint64_t counter[STAT_EVENTS];
};

/* Caches are numbered below this; a number may be free.  Initialises the library if need be. */
unsigned stats_caches(void);

/* False in a signal handler that interrupted the library: its own thread may hold a lock. */
bool stats_readable(void);

/* The cache of that number now; false: there is none. */
bool stats_read_cache(unsigned number, struct stats_cache *row);

/* Adds the counts and bytes of a row to a sum that began as zero. */
void stats_add(struct stats_cache *sum, const struct stats_cache *row);

struct stats_process {
    int pid;
    char program[32];       /* the kernel's name of it */
    const char *mode, *why; /* static */
    uint64_t membarriers;   /* sent to take other CPUs' slots */
    unsigned cpus, cpus_allowed, cpus_used, nodes;
    uint64_t slot_bytes; /* of per-CPU slots, for the CPUs that were used */
    uint64_t resident;   /* of the whole process, as the kernel counts; 0: unknown */
};
void stats_read_process(struct stats_process *process);

void stats_read_arena(struct arena_stat *arena);

#endif
