/* SPDX-License-Identifier: MIT */
/*
 * topology.c - reads CPUs, nodes and distances from sysfs and from the kernel's masks, and derives homes and orders of nodes.
 */
#include "os/topology.h"

#include "base/placed.h"
#include "base/parse.h"
#include "base/raw.h"
#include "base/report.h"
#include "base/settings.h"
#include "os/os.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct topology topology __attribute__((aligned(4096))) HEAD_BSS;
_Static_assert(sizeof(struct topology) / 4096 == offsetof(struct topology, possible_cpus) / 4096,
               "what a start writes is on one page");
const char *topology_root = "";

enum { TOPOLOGY_TEXT = 4096, TOPOLOGY_WORDS = TOPOLOGY_CPUS_MAX / 64 };

static int topology_read(const char *name, char buf[TOPOLOGY_TEXT])
{
    char path[256];

    if (!*topology_root) /* printing touches pages that a start has no need of */
        return os_read_file(name, buf, TOPOLOGY_TEXT);
    snprintf(path, sizeof(path), "%s%s", topology_root, name);
    return os_read_file(path, buf, TOPOLOGY_TEXT);
}

/* Sets the bits of a file's list of numbers; the highest of these, or -1. */
static int topology_read_list(const char *name, uint64_t set[TOPOLOGY_WORDS],
                              char buf[TOPOLOGY_TEXT])
{
    return topology_read(name, buf) > 0 ? parse_list(buf, TOPOLOGY_CPUS_MAX, set) : -1;
}

static uint64_t topology_read_nodes(const char *name, char buf[TOPOLOGY_TEXT])
{
    uint64_t set[TOPOLOGY_WORDS] = {0};

    (void)topology_read_list(name, set, buf);
    return set[0]; /* others are beyond TOPOLOGY_NODES_MAX */
}

/* The CPUs of a node. */
static __attribute__((cold)) void topology_read_members(struct topology *t, unsigned node,
                                                        char buf[TOPOLOGY_TEXT])
{
    uint64_t set[TOPOLOGY_WORDS] = {0};
    char name[64];

    snprintf(name, sizeof(name), "/sys/devices/system/node/node%u/cpulist", node);
    (void)topology_read_list(name, set, buf);
    for (unsigned cpu = 0; cpu < TOPOLOGY_CPUS_MAX; cpu++)
        if (set[cpu / 64] >> cpu % 64 & 1)
            t->node_of_cpu[cpu] = (uint8_t)node;
}

/* Distances stand in one line, in the order of the online nodes. */
static void topology_read_distances(struct topology *t, unsigned node, char buf[TOPOLOGY_TEXT])
{
    char name[64], *at = buf, *end;

    for (unsigned n = 0; n < TOPOLOGY_NODES_MAX; n++)
        t->distance[node][n] = TOPOLOGY_FAR;
    snprintf(name, sizeof(name), "/sys/devices/system/node/node%u/distance", node);
    if (topology_read(name, buf) <= 0)
        *buf = '\0';
    for (unsigned n = 0; n < TOPOLOGY_NODES_MAX; n++) {
        unsigned long distance;
        if (!(t->online_nodes >> n & 1))
            continue;
        distance = strtoul(at, &end, 10);
        if (end == at)
            break; /* fewer distances than nodes */
        at = end;
        t->distance[node][n] = (uint8_t)(distance < TOPOLOGY_FAR ? distance : TOPOLOGY_FAR);
    }
    t->distance[node][node] = TOPOLOGY_LOCAL;
}

/* The nodes with memory from one of them, nearest first. */
static void topology_sort(const struct topology *t, unsigned node, uint8_t near[TOPOLOGY_NODES_MAX])
{
    unsigned n = 0;

    for (unsigned m = 0; m < t->nodes; m++) {
        unsigned at = n;
        if (!(t->memory_nodes >> m & 1))
            continue;
        while (at > 0 && near[at - 1] != node &&
               (m == node || t->distance[node][near[at - 1]] > t->distance[node][m])) {
            near[at] = near[at - 1];
            at--;
        }
        near[at] = (uint8_t)m;
        n++;
    }
}

void topology_derive(struct topology *t)
{
    unsigned memories = (unsigned)__builtin_popcountll(t->memory_nodes);
    uint64_t online = 0;

    if (memories < t->memories) /* a row is never shorter than the number says */
        t->memories = memories;
    for (unsigned node = 0; node < t->nodes; node++) {
        uint8_t near[TOPOLOGY_NODES_MAX];
        topology_sort(t, node, near);
        for (unsigned i = 0; i < memories && t->nodes > 1; i++)
            t->near[node][i] = near[i];
        t->home_of_node[node] = near[0];
    }
    t->memories = memories;
    for (unsigned i = 0; i < TOPOLOGY_WORDS; i++)
        online |= t->online_cpus[i];
    for (unsigned i = 0; online == 0 && i < TOPOLOGY_WORDS; i++)
        t->online_cpus[i] = t->possible_cpus[i];
}

static void topology_set_one_node(struct topology *t, unsigned nodes)
{
    t->online_nodes = t->memory_nodes = 1;
    t->nodes = nodes;
}

/* `nodes` 0: as many as there may ever be; else at most so many.  False: the kernel states none. */
static __attribute__((cold)) bool topology_read_all_nodes(struct topology *t, unsigned nodes,
                                                          char buf[TOPOLOGY_TEXT])
{
    uint64_t possible = topology_read_nodes("/sys/devices/system/node/possible", buf);
    bool stated;
    uint64_t known = nodes > 0 ? ~(uint64_t)0 >> (64 - nodes) : ~(uint64_t)0;

    /* Node 0 and no other: then that is online, and a file less is read. */
    t->online_nodes =
        possible == 1 ? 1 : topology_read_nodes("/sys/devices/system/node/online", buf) & known;
    possible = (possible | t->online_nodes) & known;
    stated = t->online_nodes != 0;
    if (!stated || !(possible & ~(uint64_t)1)) { /* one node, or no NUMA in this kernel */
        topology_set_one_node(t, nodes > 0 ? nodes : 1);
        return stated;
    }
    t->memory_nodes =
        topology_read_nodes("/sys/devices/system/node/has_memory", buf) & t->online_nodes;
    if (!t->memory_nodes)
        t->memory_nodes = t->online_nodes;
    t->nodes = nodes > 0 ? nodes : 64 - (unsigned)__builtin_clzll(possible);
    for (unsigned node = 0; node < t->nodes; node++) {
        if (t->online_nodes >> node & 1)
            topology_read_members(t, node, buf);
        topology_read_distances(t, node, buf);
    }
    return true;
}

/* False: the kernel states none, and t is as before. */
static bool topology_read_possible(struct topology *t, char buf[TOPOLOGY_TEXT])
{
    uint64_t possible[TOPOLOGY_WORDS] = {0};
    int last = topology_read_list("/sys/devices/system/cpu/possible", possible, buf);

    if (last < 0)
        return false;
    memcpy(t->possible_cpus, possible, sizeof(possible));
    t->cpus = (unsigned)last + 1;
    return true;
}

static __attribute__((cold)) void topology_read_online(struct topology *t, char buf[TOPOLOGY_TEXT])
{
    uint64_t online[TOPOLOGY_WORDS] = {0};

    if (topology_read_list("/sys/devices/system/cpu/online", online, buf) < 0)
        memcpy(online, t->possible_cpus, sizeof(online));
    for (unsigned i = 0; i < TOPOLOGY_WORDS; i++)
        t->online_cpus[i] = online[i] & t->possible_cpus[i];
}

/* How many CPUs this thread may run on, and how many there may be at most: the kernel refuses a mask with fewer bits. */
static void topology_read_masks(struct topology *t)
{
    uint64_t mask[TOPOLOGY_WORDS] = {0};
    unsigned words = 0;
    long error = -EINVAL;

    while (error == -EINVAL && words < TOPOLOGY_WORDS) {
        words++;
        error = raw_result(SYS_sched_getaffinity, 0, words * sizeof(mask[0]), mask);
    }
    t->by_masks = true;
    t->mask_cpus = error >= 0 ? 64 * words : 0;
    t->cpus = t->mask_cpus > 0 ? t->mask_cpus : 1;
    for (unsigned cpu = 0; cpu < t->cpus; cpu++)
        t->possible_cpus[cpu / 64] |= (uint64_t)1 << cpu % 64;
    for (unsigned i = 0; i < words; i++)
        t->allowed_cpus += (unsigned)__builtin_popcountll(mask[i]);
}

__attribute__((cold)) void topology_learn(void)
{
    static char buf[TOPOLOGY_TEXT] LARGE_BSS; /* one thread comes to it, once */
    int saved = errno;

    if (topology.by_masks && atomic_exchange(&topology.by_masks, false) &&
        topology_read_possible(&topology, buf))
        topology_read_online(&topology, buf);
    errno = saved;
}

/*
 * Whether node 0 is the only one that may ever be.  The kernel refuses a mask with fewer bits than there may be
 * nodes; a file of sysfs takes twenty times as long.
 */
static bool topology_has_one_node(void)
{
    unsigned long mask = 0;

    return !*topology_root && raw_result(SYS_get_mempolicy, NULL, &mask, 1ul, NULL, 0ul) == 0;
}

void topology_init(void)
{
    char buf[TOPOLOGY_TEXT]; /* init runs once, at a moment with room on the stack */
    int saved = errno;       /* musl's strtoul() sets it where there is no number */

    topology_read_masks(&topology);
    if (topology.mask_cpus > 0 && topology_has_one_node()) {
        topology_set_one_node(&topology, 1);
    } else {
        topology_learn();
        topology_read_all_nodes(&topology, 0, buf);
    }
    topology_derive(&topology);
    errno = saved;
}

/* ---- changes while threads run -------------------------------------------------------------- */

__attribute__((cold)) void topology_set_cpu(unsigned cpu, bool online)
{
    uint64_t bit = (uint64_t)1 << cpu % 64;

    if (online)
        atomic_fetch_or(&topology.online_cpus[cpu / 64], bit);
    else
        atomic_fetch_and(&topology.online_cpus[cpu / 64], ~bit);
}

/* What the files state of CPUs; none at all: the kernel states nothing, and what was known holds. */
static __attribute__((cold)) unsigned topology_follow_cpus(const struct topology *now, bool nodes)
{
    unsigned changed = 0;

    for (unsigned cpu = 0; cpu < topology.cpus && now->cpus > 0; cpu++) {
        bool online = topology_is_online(now, cpu), was = topology_is_online(&topology, cpu);
        bool moved = nodes && online && topology.node_of_cpu[cpu] != now->node_of_cpu[cpu];
        if (moved) /* first: a thread that finds it online finds its node */
            topology.node_of_cpu[cpu] = now->node_of_cpu[cpu];
        if (online != was)
            topology_set_cpu(cpu, online);
        changed += moved || online != was;
    }
    return changed;
}

__attribute__((cold)) unsigned topology_reread(void)
{
    static struct topology now LARGE_BSS; /* one thread at a time */
    static char buf[TOPOLOGY_TEXT] LARGE_BSS;
    unsigned changed;
    bool nodes;

    if (topology.simulated)
        return 0;
    topology_learn();
    memset(&now, 0, sizeof(now));
    (void)topology_read_possible(&now, buf);
    topology_read_online(&now, buf);
    nodes = topology_read_all_nodes(&now, topology.nodes, buf);
    changed = topology_follow_cpus(&now, nodes);
    if (!nodes)
        return changed;
    changed += (unsigned)__builtin_popcountll((now.online_nodes ^ topology.online_nodes) |
                                              (now.memory_nodes ^ topology.memory_nodes));
    for (unsigned a = 0; a < topology.nodes; a++)
        for (unsigned b = 0; b < topology.nodes; b++)
            if (topology.distance[a][b] != now.distance[a][b])
                topology.distance[a][b] = now.distance[a][b];
    topology.online_nodes = now.online_nodes;
    topology.memory_nodes = now.memory_nodes;
    topology_derive(&topology);
    return changed;
}
