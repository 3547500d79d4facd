/* SPDX-License-Identifier: MIT */
/*
 * topology.c - reads the CPUs, nodes and distances of the machine from /sys, and sorts the nodes by distance.
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

struct topology topology HEAD_BSS;
const char *topology_root = "";

static int topology_read(const char *name, char *buf, size_t size)
{
    char path[256];

    if (!*topology_root) /* printing touches pages that a start has no need of */
        return os_read_file(name, buf, size);
    snprintf(path, sizeof(path), "%s%s", topology_root, name);
    return os_read_file(path, buf, size);
}

static void topology_add_cpu(unsigned cpu, void *set)
{
    ((uint64_t *)set)[cpu / 64] |= (uint64_t)1 << cpu % 64;
}

static void topology_add_node(unsigned node, void *set)
{
    if (node < TOPOLOGY_NODES_MAX)
        *(uint64_t *)set |= (uint64_t)1 << node;
}

struct topology_member {
    struct topology *t;
    unsigned node;
};

static void topology_add_member(unsigned cpu, void *arg)
{
    const struct topology_member *member = arg;

    member->t->node_of_cpu[cpu] = (uint8_t)member->node;
}

static uint64_t topology_read_nodes(const char *name, char *buf, size_t size)
{
    uint64_t set = 0;

    if (topology_read(name, buf, size) > 0)
        parse_list(buf, TOPOLOGY_CPUS_MAX, topology_add_node, &set);
    return set;
}

/* Distances stand in one line, in the order of the online nodes. */
static void topology_read_distances(struct topology *t, unsigned node, char *buf, size_t size)
{
    char name[64];
    const char *p = buf;

    for (unsigned n = 0; n < TOPOLOGY_NODES_MAX; n++)
        t->distance[node][n] = TOPOLOGY_FAR;
    snprintf(name, sizeof(name), "/sys/devices/system/node/node%u/distance", node);
    if (topology_read(name, buf, size) <= 0)
        *buf = '\0';
    for (unsigned n = 0; n < TOPOLOGY_NODES_MAX; n++) {
        unsigned distance = 0;
        if (!(t->online_nodes >> n & 1))
            continue;
        while (*p == ' ')
            p++;
        if (*p < '0' || *p > '9')
            break; /* fewer distances than nodes */
        for (; *p >= '0' && *p <= '9'; p++)
            distance = distance < TOPOLOGY_FAR ? distance * 10 + (unsigned)(*p - '0') : distance;
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

void topology_settle(struct topology *t)
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
    for (unsigned i = 0; i < TOPOLOGY_CPUS_MAX / 64; i++)
        online |= t->online_cpus[i];
    for (unsigned i = 0; online == 0 && i < TOPOLOGY_CPUS_MAX / 64; i++)
        t->online_cpus[i] = t->possible_cpus[i];
}

static void topology_set_one_node(struct topology *t, unsigned nodes)
{
    t->online_nodes = t->memory_nodes = 1;
    t->nodes = nodes;
}

/* `nodes` 0: as many as there may ever be; else at most so many.  False: the kernel states none. */
static bool topology_read_all_nodes(struct topology *t, unsigned nodes, char *buf, size_t size)
{
    uint64_t possible = topology_read_nodes("/sys/devices/system/node/possible", buf, size);
    bool stated;
    uint64_t known = nodes > 0 ? ~(uint64_t)0 >> (64 - nodes) : ~(uint64_t)0;

    /* Node 0 and no other: then that is online, and a file less is read. */
    t->online_nodes =
        possible == 1 ? 1
                      : topology_read_nodes("/sys/devices/system/node/online", buf, size) & known;
    possible = (possible | t->online_nodes) & known;
    stated = t->online_nodes != 0;
    if (!stated || !(possible & ~(uint64_t)1)) { /* one node, or no NUMA in this kernel */
        topology_set_one_node(t, nodes > 0 ? nodes : 1);
        return stated;
    }
    t->memory_nodes =
        topology_read_nodes("/sys/devices/system/node/has_memory", buf, size) & t->online_nodes;
    if (!t->memory_nodes)
        t->memory_nodes = t->online_nodes;
    t->nodes = nodes > 0 ? nodes : 64 - (unsigned)__builtin_clzll(possible);
    for (unsigned node = 0; node < t->nodes; node++) {
        struct topology_member member = {t, node};
        char name[64];
        if (t->online_nodes >> node & 1) {
            snprintf(name, sizeof(name), "/sys/devices/system/node/node%u/cpulist", node);
            if (topology_read(name, buf, size) > 0)
                parse_list(buf, TOPOLOGY_CPUS_MAX, topology_add_member, &member);
        }
        topology_read_distances(t, node, buf, size);
    }
    return true;
}

static void topology_read_possible(struct topology *t, char *buf, size_t size)
{
    if (topology_read("/sys/devices/system/cpu/possible", buf, size) > 0)
        t->cpus =
            (unsigned)(parse_list(buf, TOPOLOGY_CPUS_MAX, topology_add_cpu, t->possible_cpus) + 1);
}

static void topology_read_online(struct topology *t, char *buf, size_t size)
{
    uint64_t online[TOPOLOGY_CPUS_MAX / 64] = {0};

    if (topology_read("/sys/devices/system/cpu/online", buf, size) <= 0 ||
        parse_list(buf, TOPOLOGY_CPUS_MAX, topology_add_cpu, online) < 0)
        memcpy(online, t->possible_cpus, sizeof(online));
    for (unsigned i = 0; i < TOPOLOGY_CPUS_MAX / 64; i++)
        t->online_cpus[i] = online[i] & t->possible_cpus[i];
}

/*
 * How many CPUs this thread may run on.  The kernel's mask has none that is offline: if it has all CPUs that may
 * ever be, these are online, and true is returned.
 */
static bool topology_read_limits(struct topology *t)
{
    uint64_t mask[TOPOLOGY_CPUS_MAX / 64];
    long bytes = raw_call(SYS_sched_getaffinity, 0, sizeof(mask), mask);
    unsigned words = bytes > 0 ? (unsigned)bytes / sizeof(mask[0]) : 0, missing = 0;

    for (unsigned i = 0; i < words; i++)
        t->allowed_cpus += (unsigned)__builtin_popcountll(mask[i]);
    if (t->cpus == 0) { /* no sysfs: the kernel's mask is as long as its CPU table */
        t->cpus = bytes > 0 ? (unsigned)bytes * 8 : 1;
        for (unsigned cpu = 0; cpu < t->cpus; cpu++)
            topology_add_cpu(cpu, t->possible_cpus);
    }
    for (unsigned i = 0; i < TOPOLOGY_CPUS_MAX / 64; i++)
        missing += (t->possible_cpus[i] & ~(i < words ? mask[i] : 0)) != 0;
    return missing == 0;
}

/*
 * Whether node 0 is the only one that may ever be.  The kernel refuses a mask with fewer bits than there may be
 * nodes; a file of sysfs takes twenty times as long.
 */
static bool topology_has_one_node(void)
{
    unsigned long mask = 0;

    return !*topology_root && raw_call(SYS_get_mempolicy, NULL, &mask, 1ul, NULL, 0ul) == 0;
}

__attribute__((cold)) unsigned topology_quota(void)
{
    unsigned long long quota, period;
    char buf[64], *end;

    if (topology.simulated || topology_read("/sys/fs/cgroup/cpu.max", buf, sizeof(buf)) <= 0)
        return 0;
    quota = strtoull(buf, &end, 10); /* or "max" */
    period = strtoull(end, NULL, 10);
    if (period == 0)
        return 0;
    return (unsigned)(quota * 100 / period);
}

void topology_init(void)
{
    char buf[4096]; /* init runs once, at a moment with room on the stack */
    int saved = errno;

    topology_read_possible(&topology, buf, sizeof(buf));
    /* A test's files may say less than the kernel. */
    if (topology_read_limits(&topology) && !*topology_root)
        memcpy(topology.online_cpus, topology.possible_cpus, sizeof(topology.possible_cpus));
    else
        topology_read_online(&topology, buf, sizeof(buf));
    if (topology_has_one_node())
        topology_set_one_node(&topology, 1);
    else
        topology_read_all_nodes(&topology, 0, buf, sizeof(buf));
    topology_settle(&topology);
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
    static char buf[4096] LARGE_BSS;
    unsigned changed;
    bool nodes;

    if (topology.simulated)
        return 0;
    memset(&now, 0, sizeof(now));
    topology_read_possible(&now, buf, sizeof(buf));
    topology_read_online(&now, buf, sizeof(buf));
    nodes = topology_read_all_nodes(&now, topology.nodes, buf, sizeof(buf));
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
    topology_settle(&topology);
    return changed;
}
