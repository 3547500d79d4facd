/* SPDX-License-Identifier: MIT */
/* timeout: 120 */
/*
 * CPUs and memory of a simulated machine go and come back.  The objects that a CPU holds are freed when it goes, slabs are
 * made on nodes with memory, objects in use stay.
 */
#include "percpu/percpu.h"
#include "page/arena.h"
#include "sheaf/slot_drain.h"
#include "slab/node.h"
#include "support/check.h"
#include "support/topology_cache.h"
#include "support/topology_child.h"

#include <stook/stook.h>
#include <stook/topology.h>

/* What an update says; -1 where it fails. */
static int changes(void)
{
    unsigned n;

    return stook_topology_update(&n) == 0 ? (int)n : -1;
}

static struct check_object held[MANY];

static struct slot_counts on_cpu(unsigned cpu)
{
    struct slot_counts counts = {0};

    slot_count_cpu(cache, cpu, &counts);
    return counts;
}

static uint64_t slabs(unsigned node)
{
    struct node_counts counts;

    node_count(cache, node, &counts);
    return counts.slabs;
}

static void check_held(unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        held[i] = (struct check_object){cache, objects[i]};
    check_all(held, n);
}

/* ---- CPUs ----------------------------------------------------------------------------------- */

TEST_IN_CHILD(cpu_goes)
{
    MUST(set("node:2 core:4"));
    MUST(stook_topology_cpu(5) >= 0);
    take(0, MANY);
    give(0, MANY - 10); /* ten stay in use */
    memmove(objects, objects + MANY - 10, 10 * sizeof(objects[0]));
    MUST(on_cpu(5).objects > 0 && on_cpu(5).sheaves > 0);
    MUST(stook_topology_cpu_online(5, 0) == 0);
    MUST(on_cpu(5).objects == 0 && on_cpu(5).sheaves == 0);
    check_held(10);
    /* This thread is on another CPU now, and continues. */
    take(10, MANY - 10);
    MUST(on_cpu(5).sheaves == 0);
    give(0, MANY);
    MUST(on_cpu(5).sheaves == 0);
    MUST(percpu_use_of(5) == PERCPU_LEFT);
    errno = 0;
    MUST(stook_topology_cpu(5) == -1 && errno == EINVAL);

    MUST(stook_topology_cpu_online(5, 1) == 0 && stook_topology_cpu_online(5, 1) == 0);
    MUST(stook_topology_cpu(5) >= 0);
    take(0, MANY);
    give(0, MANY);
    MUST(percpu_use_of(5) == PERCPU_USED && on_cpu(5).sheaves > 0);
    return end();
}

/* With the last CPU of a node its barn is emptied, and remains so while others free its objects. */
TEST_IN_CHILD(node_goes)
{
    struct barn *barn;

    MUST(set("node:2 core:2"));
    barn = &cache->nodes[1].barn;
    MUST(stook_topology_cpu(2) >= 0);
    take(0, MANY);
    give(0, MANY / 2);
    MUST(barn->nr_full > 0);
    MUST(stook_topology_cpu_online(2, 0) == 0);
    MUST(barn->nr_full > 0); /* CPU 3 may use it */
    MUST(stook_topology_cpu_online(3, 0) == 0);
    MUST(barn->nr_full == 0 && barn->nr_empty == 0 && barn->full_limit == 0);
    MUST(stook_topology_cpu(0) >= 0);
    give(MANY / 2, MANY / 2);
    MUST(barn->nr_full == 0);
    MUST(stook_topology_cpu_online(3, 1) == 0);
    MUST(stook_topology_cpu(3) >= 0);
    take(0, MANY); /* misses raise its limit */
    MUST(barn->full_limit > 0);
    give(0, MANY);
    return end();
}

TEST_IN_CHILD(last_cpu_stays)
{
    MUST(set("cpus:0=3,70"));
    MUST(stook_topology_cpu_online(3, 0) == 0 && stook_topology_cpu_online(3, 0) == 0);
    errno = 0;
    MUST(stook_topology_cpu_online(70, 0) == -1 && errno == EBUSY);
    errno = 0;
    MUST(stook_topology_cpu_online(4, 0) == -1 && errno == EINVAL);
    MUST(stook_topology_cpu_online(-1, 0) == -1 && stook_topology_cpu_online(1 << 20, 1) == -1);
    take(0, 100);
    MUST(stook_topology_cpu(70) == 70); /* there it was */
    give(0, 100);
    MUST(changes() == 0);
    return end();
}

/* ---- memory --------------------------------------------------------------------------------- */

TEST_IN_CHILD(memory_goes)
{
    struct arena_stat before, after;

    MUST(set("node:2 core:2"));
    MUST(stook_topology_cpu(2) >= 0 && topology_home(2) == 1);
    take(0, MANY);
    memset(objects[0], 0xa5, 320);
    give(MANY / 4, MANY - MANY / 4);
    for (unsigned i = 0; i < MANY / 4; i++)
        MUST(pagemap_node(objects[i]) == 1);
    arena_stat(&before);
    MUST(before.warm > 0 || slabs(1) > MANY / 4 / cache->layout.objects);
    MUST(stook_topology_memory_online(1, 0) == 0);
    MUST(topology_home(2) == 0 && topology.memories == 1 && topology_near(1, 0) == 0);
    arena_stat(&after);
    MUST(after.purged > before.purged);
    check_held(MANY / 4);
    for (unsigned i = 0; i < 320; i++) /* what is in use stays where it is, as it is */
        MUST(((unsigned char *)objects[0])[i] == 0xa5);
    /* Sheaves may still hold some of node 1; then all is of node 0. */
    (void)stook_cache_shrink(cache);
    take(MANY / 4, MANY - MANY / 4);
    for (unsigned i = MANY / 4; i < MANY; i++)
        MUST(pagemap_node(objects[i]) == 0);
    /* The last object of a slab there takes the slab along. */
    give(0, MANY);
    (void)stook_cache_shrink(cache);
    MUST(slabs(1) == 0);

    MUST(stook_topology_memory_online(1, 1) == 0 && stook_topology_memory_online(1, 1) == 0);
    MUST(topology_home(2) == 1 && topology.memories == 2);
    (void)stook_cache_shrink(cache);
    MUST(stook_topology_cpu(2) >= 0);
    take(0, MANY);
    for (unsigned i = 0; i < MANY; i++)
        MUST(pagemap_node(objects[i]) == 1);
    give(0, MANY);
    return end();
}

/* Without an explicit call: no thread keeps slabs of a node without memory. */
TEST_IN_CHILD(freed_far_away)
{
    MUST(set("node:2 core:2"));
    MUST(stook_topology_cpu(2) >= 0);
    take(0, MANY);
    MUST(slabs(1) > 0);
    MUST(stook_topology_memory_online(1, 0) == 0);
    MUST(stook_topology_cpu_online(2, 0) == 0 && stook_topology_cpu_online(3, 0) == 0);
    MUST(stook_topology_cpu(0) >= 0);
    give(0, MANY);
    /* What may be left are this CPU's two sheaves and its remote one. */
    MUST(slabs(1) <= 3 * CAPACITY);
    MUST(cache->nodes[1].node.nr_empty == 0);
    return end();
}

TEST_IN_CHILD(last_memory_stays)
{
    MUST(set("node:3 memory:0,2=1G"));
    errno = 0;
    MUST(stook_topology_memory_online(2, 0) == 0);
    MUST(stook_topology_memory_online(0, 0) == -1 && errno == EBUSY);
    MUST(stook_topology_memory_online(3, 1) == -1 && errno == EINVAL);
    MUST(stook_topology_memory_online(-1, 1) == -1 && errno == EINVAL);
    MUST(stook_topology_memory_online(1, 1) == 0); /* comes for the first time */
    MUST(topology.memory_nodes == 3 && topology_near(2, 0) < 2);
    return end();
}

TEST_IN_CHILD(simulated_only)
{
    errno = 0;
    MUST(stook_topology_cpu_online(0, 0) == -1 && errno == ENOTSUP);
    errno = 0;
    MUST(stook_topology_memory_online(0, 0) == -1 && errno == ENOTSUP);
    return 0;
}

/* ---- who calls ------------------------------------------------------------------------------ */

static int said;

static void goes(void *object, void *arg)
{
    if (stook_topology_update(NULL) == -1 && errno == EDEADLK)
        said++;
}

/* A destructor that runs inside it gets an error, and does not wait for itself. */
TEST_IN_CHILD(from_a_destructor)
{
    struct stook_cache_args args = {.size = sizeof(args), .dtor = goes};

    MUST(stook_topology_set("node:1 core:2") == 0);
    MUST((cache = stook_cache_create("destructor", 20000, &args)) != NULL);
    MUST(stook_topology_cpu(1) >= 0);
    take(0, 200);
    give(0, 200);
    said = 0;
    MUST(on_cpu(1).objects > 0);
    MUST(stook_topology_cpu_online(1, 0) == 0);
    MUST(on_cpu(1).objects == 0 && said > 0);
    return end();
}
