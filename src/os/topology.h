/* SPDX-License-Identifier: MIT */
/*
 * topology.h - CPUs and nodes as the kernel states them; read once, at start, without malloc.
 *
 * CPU and node numbers may have gaps: tables are indexed by number and sized by the highest
 * possible one.  Cpusets and affinity do not shrink them, since they may change while we run;
 * nothing is touched for a CPU before a thread runs on it.
 */
#ifndef STOOK_OS_TOPOLOGY_H
#define STOOK_OS_TOPOLOGY_H

#include <stdint.h>

enum {
    TOPOLOGY_CPUS_MAX = 8192, /* Linux's largest NR_CPUS */
    TOPOLOGY_NODES_MAX = 64,
};

struct topology {
    unsigned cpus;          /* highest possible CPU number + 1 */
    unsigned nodes;         /* highest online node number + 1 */
    unsigned allowed_cpus;  /* in this thread's affinity at start */
    unsigned quota_percent; /* cgroup CPU quota in percent of one CPU; 0: none */
    uint64_t online_nodes;  /* bit per node */
    uint64_t memory_nodes;  /* bit per node that has memory */
    uint8_t node_of_cpu[TOPOLOGY_CPUS_MAX];
    uint8_t home_of_node[TOPOLOGY_NODES_MAX]; /* the nearest node with memory */
};

extern struct topology topology __attribute__((visibility("hidden")));
/* Stands before every path that is read: tests put their own sysfs there. */
extern const char *topology_root __attribute__((visibility("hidden")));

void topology_init(void);

/* Parses "0-3,8,10-11"; calls `each` for every number; the highest, or -1 if it is no list. */
int topology_parse_list(const char *text, void (*each)(unsigned number, void *arg), void *arg);

static inline unsigned topology_node(unsigned cpu)
{
    return topology.node_of_cpu[cpu];
}

/* The node that a CPU takes memory from. */
static inline unsigned topology_home(unsigned cpu)
{
    return topology.home_of_node[topology.node_of_cpu[cpu]];
}

#endif
