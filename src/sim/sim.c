/* SPDX-License-Identifier: MIT */
/*
 * sim.c - simulated machines (docs/topology.md): STOOK_TOPOLOGY, the calls of stook/topology.h that only such a
 * machine serves, and the CPU that a thread states.  No shipped library has this file.  The tool, the tests and the
 * library in lib/stook/sim do: there this folder takes the place of face/common.c, compiled with STOOK_SIM, and of
 * percpu/percpu_cpu.c.
 *
 * CPUs and memory come and go under the cache list's lock: one thread changes the tables at a time, and none beside
 * a fork.
 */
#include "sim/sim.h"

#include "base/context.h"
#include "base/init.h"
#include "base/report.h"
#include "cache/cache_list.h"
#include "cache/init.h"
#include "face/hotplug.h"
#include "os/os.h"
#include "page/arena.h"
#include "page/window.h"
#include "page/zone.h"
#include "percpu/percpu.h"
#include "sim/topology_text.h"
#include "watch/settings_show.h"

#include <stook/topology.h>

#include <errno.h>
#include <string.h>

static const char *sim_text;         /* STOOK_TOPOLOGY; NULL: not set */
static __thread unsigned sim_stated; /* the CPU that this thread states + 1; 0: none yet */

static int sim_fail(int error)
{
    errno = error;
    return -1;
}

/* ---- the machine ---------------------------------------------------------------------------- */

static bool sim_load(const char *text)
{
    if (!topology_text_load(text, &topology))
        return false;
    percpu_refused = "the topology is simulated"; /* sections know real CPUs only */
    return true;
}

void sim_settings_read(char *const *environment)
{
    static const char name[] = "STOOK_TOPOLOGY=";

    sim_text = NULL;
    for (char *const *v = environment; v && *v; v++)
        if (strncmp(*v, name, sizeof(name) - 1) == 0 && (*v)[sizeof(name) - 1])
            sim_text = *v + sizeof(name) - 1;
    settings_simulated = true;
}

void sim_start(void)
{
    if (sim_text && !sim_load(sim_text))
        report_warn("STOOK_TOPOLOGY=%.200s is ignored: it describes no machine", sim_text);
}

void sim_forget_settings(void)
{
    settings_read(NULL, false);
}

/* Undoes the start, while no slot is in use and no other thread is in the library.  The descriptors of the
 * library's own caches stay behind. */
static void sim_stop(void)
{
    size_t words = ((pagemap.size >> BLOCK_SHIFT) + 63) / 64;

    memset(cache_table, 0, percpu.slots * sizeof(cache_table[0]));
    cache_list = (struct cache_list){0};
    for (unsigned i = 0; i < pagemap.zones; i++)
        if (zone_all.zone[i].map)
            os_unmap(zone_all.zone[i].map, words * sizeof(struct zone_bits));
    memset(&zone_all, 0, sizeof(zone_all));
    window_exit();
    os_unmap(percpu.areas - 2 * (size_t)PERCPU_AREA_SIZE,
             ((size_t)percpu.rows + 2) * PERCPU_AREA_SIZE);
    if (percpu.isolated)
        os_unmap(percpu.isolated, TOPOLOGY_CPUS_MAX / 8);
    memset(&percpu, 0, sizeof(percpu));
}

int stook_topology_set(const char *text_or_file)
{
    struct arena_stat stat = {.blocks = 1};

    if (init_once()) {
        context_enter();
        arena_stat(&stat);
        context_leave();
    }
    if (stat.blocks > 0) /* every cache's descriptor and every large object is from the arena */
        return sim_fail(EBUSY);
    if (!text_or_file || !sim_load(text_or_file))
        return sim_fail(EINVAL);
    sim_stop();
    percpu_kept = -1;
    percpu_init();
    init_memory();
    hotplug_again();
    return 0;
}

/* ---- the CPU of a thread -------------------------------------------------------------------- */

/* Gives this thread the next CPU in turn, of those that are online. */
static unsigned sim_deal(void)
{
    static _Atomic unsigned dealt;
    unsigned online = 0, skip, cpu = 0, last = 0;

    for (unsigned i = 0; i < TOPOLOGY_CPUS_MAX / 64; i++)
        online += (unsigned)__builtin_popcountll(topology.online_cpus[i]);
    skip = atomic_fetch_add_explicit(&dealt, 1, memory_order_relaxed) % (online ? online : 1);
    for (; cpu < topology.cpus; cpu++)
        if (topology_is_online(&topology, cpu)) {
            last = cpu; /* one of them may go meanwhile */
            if (skip-- == 0)
                break;
        }
    sim_stated = last + 1;
    return last;
}

/* Threads that state none, or one that went offline since, are dealt out to the CPUs in turn. */
int percpu_cpu_asked(void)
{
    unsigned cpu = sim_stated - 1;

    if (!topology.simulated)
        return registration_machine_cpu();
    return (int)(topology_is_online(&topology, cpu) ? cpu : sim_deal());
}

int stook_topology_cpu(int cpu)
{
    int before;

    (void)init_once();
    if (!topology.simulated)
        return sim_fail(ENOTSUP);
    if (cpu < 0 || !topology_is_online(&topology, (unsigned)cpu))
        return sim_fail(EINVAL);
    before = percpu_cpu_asked();
    sim_stated = (unsigned)cpu + 1;
    return before;
}

/* ---- what comes and goes -------------------------------------------------------------------- */

static int sim_set_cpu(int cpu, bool online)
{
    unsigned others = 0;

    if (cpu < 0 || !topology_has_cpu(&topology, (unsigned)cpu))
        return EINVAL;
    for (unsigned other = 0; other < topology.cpus; other++)
        others += other != (unsigned)cpu && topology_is_online(&topology, other);
    if (!online && others == 0)
        return EBUSY;
    topology_set_cpu((unsigned)cpu, online);
    return 0;
}

static int sim_set_memory(int node, bool online)
{
    uint64_t bit = (uint64_t)1 << (node & 63);

    if (!topology_has_node(node))
        return EINVAL;
    if (!online && topology.memory_nodes == bit)
        return EBUSY;
    topology.memory_nodes = online ? topology.memory_nodes | bit : topology.memory_nodes & ~bit;
    topology_derive(&topology);
    return 0;
}

static int sim_change(int (*set)(int number, bool online), int number, int online)
{
    int error;

    if (init_once() && !topology.simulated)
        return sim_fail(ENOTSUP);
    if (stook_topology_update(NULL) != 0) /* EDEADLK, before anything changed */
        return -1;
    context_enter();
    lock_take(&cache_list.lock, LOCK_CACHES);
    error = set(number, online != 0);
    lock_drop(&cache_list.lock, LOCK_CACHES);
    context_leave();
    return error != 0 ? sim_fail(error) : stook_topology_update(NULL);
}

int stook_topology_cpu_online(int cpu, int online)
{
    return sim_change(sim_set_cpu, cpu, online);
}

int stook_topology_memory_online(int node, int online)
{
    return sim_change(sim_set_memory, node, online);
}
