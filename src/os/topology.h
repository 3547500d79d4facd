/* SPDX-License-Identifier: MIT */
/*
 * topology.h - CPUs and nodes as the kernel states them, read at start and when they change, without malloc; or a
 * simulated machine's (sim/), which no shipped library has.
 *
 * CPU and node numbers may have gaps: tables are indexed by number and sized by the highest
 * possible one.  Cpusets and affinity do not shrink them, since they may change while we run;
 * nothing is touched for a CPU before a thread runs on it.
 *
 * The atomic fields may change while threads run, and are read without a lock, a value at a time.
 * A reader may meet old and new values side by side.  Each is valid whenever it is read: a node's home
 * is a node below `nodes`, and the first `memories` entries of a row of `near` are such nodes.  One
 * thread at a time changes them (face/hotplug.c).
 */
#ifndef STOOK_OS_TOPOLOGY_H
#define STOOK_OS_TOPOLOGY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum {
    TOPOLOGY_CPUS_MAX = 8192, /* Linux's largest NR_CPUS */
    TOPOLOGY_NODES_MAX = 64,
    TOPOLOGY_LOCAL = 10, /* the distance of a node to itself, as in ACPI's tables */
    TOPOLOGY_FAR = 255,  /* where the kernel states none */
};

struct topology {
    /* Zeros where there is one node: neither is touched there.  From each node all nodes with memory, nearest
     * first: itself, then by distance and number. */
    _Atomic uint8_t near[TOPOLOGY_NODES_MAX][TOPOLOGY_NODES_MAX];
    _Atomic uint8_t distance[TOPOLOGY_NODES_MAX][TOPOLOGY_NODES_MAX];
    _Atomic uint8_t node_of_cpu[TOPOLOGY_CPUS_MAX]; /* of a CPU that is offline: the last known */
    uint64_t memory[TOPOLOGY_NODES_MAX];            /* bytes; 0 where the kernel states them */
    /* What every start writes, beside the head of `percpu`. */
    uint64_t possible_cpus[TOPOLOGY_CPUS_MAX / 64];       /* bit per CPU */
    _Atomic uint64_t online_cpus[TOPOLOGY_CPUS_MAX / 64]; /* of these; never none */
    _Atomic uint8_t home_of_node[TOPOLOGY_NODES_MAX];     /* the nearest node with memory */
    _Atomic unsigned cpus;                                /* highest possible CPU number + 1 */
    unsigned
        mask_cpus; /* CPUs that the kernel's masks have room for: at least those that may ever be; 0: not known */
    unsigned nodes;                /* highest possible node number + 1 */
    _Atomic unsigned allowed_cpus; /* in this thread's affinity at start; then: any thread's */
    _Atomic unsigned memories;     /* nodes that have memory */
    bool simulated;                /* by sim/: a text states all this, threads state their CPUs */
    _Atomic bool
        by_masks; /* possible and online CPUs are all that the masks have room for: nothing else was read */
    _Atomic uint64_t online_nodes; /* bit per node */
    _Atomic uint64_t memory_nodes; /* bit per node that has memory; never 0 */
};

extern struct topology topology __attribute__((visibility("hidden")));
/* Stands before every path that is read: tests put their own sysfs there. */
extern const char *topology_root __attribute__((visibility("hidden")));

/* Reads what the kernel states.  Where there is one node no file is opened: its CPUs are alike. */
void topology_init(void);
/* Which CPUs there may be, and which are online, for those who tell: what a start on one node leaves out.  Any thread. */
void topology_learn(void);

/* Homes and orders, from nodes, memory and distances; all CPUs are online where none is said to be. */
void topology_derive(struct topology *t);

/*
 * Reads anew what the kernel states, and lets the tables follow.  CPUs and nodes beyond
 * the tables are left out.  How many CPUs and nodes are other than before.
 */
unsigned topology_reread(void);
/* A CPU is there from now on, or is not. */
void topology_set_cpu(unsigned cpu, bool online);

/* Of this process's machine. */
static inline bool topology_has_node(int node)
{
    return node >= 0 && (unsigned)node < topology.nodes && topology.online_nodes >> node & 1;
}

static inline bool topology_has_cpu(const struct topology *t, unsigned cpu)
{
    return cpu < TOPOLOGY_CPUS_MAX && (t->possible_cpus[cpu / 64] >> cpu % 64 & 1);
}

static inline bool topology_is_online(const struct topology *t, unsigned cpu)
{
    return cpu < TOPOLOGY_CPUS_MAX &&
           (atomic_load_explicit(&t->online_cpus[cpu / 64], memory_order_relaxed) >> cpu % 64 & 1);
}

static inline unsigned topology_node(unsigned cpu)
{
    if (topology.nodes == 1) /* the table stays untouched */
        return 0;
    return atomic_load_explicit(&topology.node_of_cpu[cpu], memory_order_relaxed);
}

/* The node that a CPU takes memory from. */
static inline unsigned topology_home(unsigned cpu)
{
    return atomic_load_explicit(&topology.home_of_node[topology_node(cpu)], memory_order_relaxed);
}

/* Of two nodes below topology.nodes; TOPOLOGY_LOCAL of one. */
static inline unsigned topology_distance(unsigned a, unsigned b)
{
    return a == b ? TOPOLOGY_LOCAL
                  : atomic_load_explicit(&topology.distance[a][b], memory_order_relaxed);
}

static inline bool topology_has_memory(unsigned node)
{
    return atomic_load_explicit(&topology.memory_nodes, memory_order_relaxed) >> node & 1;
}

/* The i-th nearest node with memory, i < topology.memories; the first is the home. */
static inline unsigned topology_near(unsigned node, unsigned i)
{
    return atomic_load_explicit(i == 0 ? &topology.home_of_node[node] : &topology.near[node][i],
                                memory_order_relaxed);
}

#endif
