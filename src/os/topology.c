/* SPDX-License-Identifier: MIT */
#include "os/topology.h"

#include "base/report.h"
#include "os/os.h"
#include "os/topology_text.h"

#include <errno.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

struct topology topology;
const char *topology_root = "";

static int topology_read(const char *name, char *buf, size_t size)
{
    char path[256];

    snprintf(path, sizeof(path), "%s%s", topology_root, name);
    return os_read_file(path, buf, size);
}

int topology_parse_list(const char *text, void (*each)(unsigned number, void *arg), void *arg)
{
    int highest = -1;

    while (*text >= '0' && *text <= '9') {
        unsigned bounds[2] = {0, 0};
        int parts = 0;
        do {
            if (parts == 1 && (*++text < '0' || *text > '9')) /* past the '-' */
                return -1;
            for (; *text >= '0' && *text <= '9'; text++) {
                bounds[parts] = bounds[parts] * 10 + (unsigned)(*text - '0');
                if (bounds[parts] >= TOPOLOGY_CPUS_MAX)
                    return -1;
            }
            parts++;
        } while (parts == 1 && *text == '-');
        if (parts == 1)
            bounds[1] = bounds[0];
        if (bounds[1] < bounds[0])
            return -1;
        for (unsigned n = bounds[0]; n <= bounds[1]; n++) {
            if (each)
                each(n, arg);
            if ((int)n > highest)
                highest = (int)n;
        }
        if (*text == ',')
            text++;
    }
    return *text == '\0' || *text == '\n' ? highest : -1;
}

static void topology_add_possible(unsigned cpu, void *unused)
{
    (void)unused;
    topology.possible_cpus[cpu / 64] |= (uint64_t)1 << cpu % 64;
}

static void topology_add_cpu(unsigned cpu, void *node)
{
    topology.node_of_cpu[cpu] = (uint8_t) * (unsigned *)node;
}

static void topology_add_bit(unsigned node, void *set)
{
    if (node < TOPOLOGY_NODES_MAX)
        *(uint64_t *)set |= (uint64_t)1 << node;
}

static uint64_t topology_read_nodes(const char *name, char *buf, size_t size)
{
    uint64_t set = 0;

    if (topology_read(name, buf, size) > 0)
        topology_parse_list(buf, topology_add_bit, &set);
    return set;
}

/* Distances stand in one line, in the order of the online nodes. */
static void topology_read_distances(unsigned node, char *buf, size_t size)
{
    char name[64];
    const char *p = buf;

    memset(topology.distance[node], TOPOLOGY_FAR, sizeof(topology.distance[node]));
    snprintf(name, sizeof(name), "/sys/devices/system/node/node%u/distance", node);
    if (topology_read(name, buf, size) <= 0)
        *buf = '\0';
    for (unsigned n = 0; n < TOPOLOGY_NODES_MAX; n++) {
        unsigned distance = 0;
        if (!(topology.online_nodes >> n & 1))
            continue;
        while (*p == ' ')
            p++;
        if (*p < '0' || *p > '9')
            break; /* fewer distances than nodes */
        for (; *p >= '0' && *p <= '9'; p++)
            distance = distance < TOPOLOGY_FAR ? distance * 10 + (unsigned)(*p - '0') : distance;
        topology.distance[node][n] = (uint8_t)(distance < TOPOLOGY_FAR ? distance : TOPOLOGY_FAR);
    }
    topology.distance[node][node] = TOPOLOGY_LOCAL;
}

void topology_settle(struct topology *t)
{
    t->memories = (unsigned)__builtin_popcountll(t->memory_nodes);
    for (unsigned node = 0; node < t->nodes; node++) {
        const uint8_t *distance = t->distance[node];
        uint8_t *near = t->near[node];
        unsigned n = 0;
        for (unsigned m = 0; m < t->nodes; m++) {
            unsigned at = n;
            if (!(t->memory_nodes >> m & 1))
                continue;
            while (at > 0 && near[at - 1] != node &&
                   (m == node || distance[near[at - 1]] > distance[m])) {
                near[at] = near[at - 1];
                at--;
            }
            near[at] = (uint8_t)m;
            n++;
        }
        t->home_of_node[node] = near[0];
    }
}

static void topology_init_nodes(char *buf, size_t size)
{
    topology.online_nodes = topology_read_nodes("/sys/devices/system/node/online", buf, size);
    if (!(topology.online_nodes & ~(uint64_t)1)) { /* one node, or no NUMA in this kernel */
        topology.online_nodes = topology.memory_nodes = 1;
        topology.nodes = 1;
        topology.distance[0][0] = TOPOLOGY_LOCAL;
        return;
    }
    topology.memory_nodes = topology_read_nodes("/sys/devices/system/node/has_memory", buf, size) &
                            topology.online_nodes;
    if (!topology.memory_nodes)
        topology.memory_nodes = topology.online_nodes;
    topology.nodes = 64 - (unsigned)__builtin_clzll(topology.online_nodes);
    for (unsigned node = 0; node < topology.nodes; node++) {
        char name[64];
        if (topology.online_nodes >> node & 1) {
            snprintf(name, sizeof(name), "/sys/devices/system/node/node%u/cpulist", node);
            if (topology_read(name, buf, size) > 0)
                topology_parse_list(buf, topology_add_cpu, &node);
        }
        topology_read_distances(node, buf, size);
    }
}

static void topology_init_limits(char *buf, size_t size)
{
    unsigned long mask[TOPOLOGY_CPUS_MAX / (8 * sizeof(unsigned long))];
    long bytes = syscall(SYS_sched_getaffinity, 0, sizeof(mask), mask);
    unsigned long long quota = 0, period = 0;

    for (long i = 0; i < bytes / (long)sizeof(mask[0]); i++)
        topology.allowed_cpus += (unsigned)__builtin_popcountl(mask[i]);
    if (topology.cpus == 0) { /* no sysfs: the kernel's mask is as long as its CPU table */
        topology.cpus = bytes > 0 ? (unsigned)bytes * 8 : 1;
        for (unsigned cpu = 0; cpu < topology.cpus; cpu++)
            topology_add_possible(cpu, NULL);
    }
    if (topology_read("/sys/fs/cgroup/cpu.max", buf, size) > 0 &&
        sscanf(buf, "%llu %llu", &quota, &period) == 2 && period > 0)
        topology.quota_percent = (unsigned)(quota * 100 / period);
}

void topology_init(void)
{
    static char buf[4096]; /* init runs once, on one thread */
    const char *text = topology.simulated ? NULL : os_getenv("STOOK_TOPOLOGY");
    int saved = errno;

    if (text && *text && !topology_text_load(text, &topology))
        report_warn("STOOK_TOPOLOGY is no topology: the machine's own is used");
    if (!topology.simulated) {
        if (topology_read("/sys/devices/system/cpu/possible", buf, sizeof(buf)) > 0)
            topology.cpus = (unsigned)(topology_parse_list(buf, topology_add_possible, NULL) + 1);
        topology_init_limits(buf, sizeof(buf));
        topology_init_nodes(buf, sizeof(buf));
        topology_settle(&topology);
    }
    errno = saved;
}

/* ---- simulated CPUs ------------------------------------------------------------------------- */

__thread unsigned topology_stated;

unsigned topology_deal(void)
{
    static _Atomic unsigned dealt;
    unsigned skip = atomic_fetch_add_explicit(&dealt, 1, memory_order_relaxed) %
                    (topology.allowed_cpus ? topology.allowed_cpus : 1);
    unsigned cpu = 0;

    while (cpu < topology.cpus && (!topology_has_cpu(&topology, cpu) || skip-- > 0))
        cpu++;
    topology_stated = cpu + 1;
    return cpu;
}
