/* SPDX-License-Identifier: MIT */
/*
 * The kernel's files change: a node's memory comes online and becomes the home of its CPUs, CPUs come
 * with their node, and the tables are as valid as from the start.
 */
#include "support/fake_nodes.h"
#include "support/test.h"

#include "page/pagemap.h"
#include "slab/node.h"
#include "support/check.h"

#include <stook/stook.h>
#include <stook/topology.h>

#include <sched.h>
/* What an update says; -1 where it fails. */
static int changes(void)
{
    unsigned n;

    return stook_topology_update(&n) == 0 ? (int)n : -1;
}

TEST(memory_comes_and_goes)
{
    struct stook_cache *cache = stook_cache_create("sysfs", 320, NULL);
    unsigned node = 1;
    int cpu;
    cpu_set_t all, one;
    void *object;

    assert_int_equal(topology.nodes, 4);
    assert_int_equal(topology.home_of_node[1], 3);
    assert_int_equal(sched_getaffinity(0, sizeof(all), &all), 0);
    /* On a CPU of the node without memory, where this machine has one: 1, 4, 7, ... */
    for (cpu = 1; cpu < CPU_SETSIZE && !CPU_ISSET(cpu, &all); cpu += 3)
        ;
    CPU_ZERO(&one);
    if (cpu < CPU_SETSIZE)
        CPU_SET(cpu, &one);
    if (cpu >= CPU_SETSIZE || sched_setaffinity(0, sizeof(one), &one) != 0)
        node = topology_node((unsigned)sched_getcpu());

    object = stook_alloc(cache, 0);
    assert_non_null(object);
    assert_int_equal(pagemap_node(object), topology.home_of_node[node]);
    stook_free(cache, object);
    (void)stook_cache_shrink(cache);

    assert_true(stook_topology_update(NULL) == 0);
    assert_int_equal(changes(), 0);
    fake_file("/sys/devices/system/node/has_memory", "0-1,3\n");
    assert_int_equal(changes(), 1);
    assert_int_equal(topology.memories, 3);
    assert_int_equal(topology.home_of_node[1], 1);
    assert_int_equal(topology.home_of_node[3], 3);
    object = stook_alloc(cache, 0);
    assert_non_null(object);
    assert_int_equal(pagemap_node(object), node);
    stook_free(cache, object);

    fake_file("/sys/devices/system/node/has_memory", "0\n");
    assert_int_equal(changes(), 2);
    assert_int_equal(topology.memories, 1);
    for (unsigned n = 0; n < topology.nodes; n++)
        assert_int_equal(topology.home_of_node[n], 0);
    (void)stook_cache_shrink(cache);
    object = stook_alloc(cache, 0);
    assert_int_equal(pagemap_node(object), 0);
    stook_free(cache, object);
    check_all(NULL, 0);

    fake_file("/sys/devices/system/node/has_memory", "0,3\n");
    assert_int_equal(changes(), 1);
    assert_int_equal(topology.home_of_node[1], 3);
    assert_int_equal(sched_setaffinity(0, sizeof(all), &all), 0);
    assert_int_equal(stook_cache_destroy(cache), 0);
    check_all(NULL, 0);
}

/* A node beyond those that were possible at the start is left out: no table has room for it. */
TEST(strangers_are_left_out)
{
    fake_file("/sys/devices/system/node/has_memory", "0,3,9\n");
    fake_file("/sys/devices/system/node/online", "0-1,3,9\n");
    assert_int_equal(changes(), 0);
    assert_int_equal(topology.nodes, 4);
    assert_int_equal(topology.online_nodes, 0xb);
    /* Node 2 was counted, and comes with memory. */
    fake_file("/sys/devices/system/node/has_memory", "0,2-3\n");
    fake_file("/sys/devices/system/node/online", "0-3\n");
    assert_int_equal(changes(), 1);
    assert_int_equal(topology.online_nodes, 0xf);
    assert_int_equal(topology.home_of_node[2], 2);
    fake_file("/sys/devices/system/node/has_memory", "0,3\n");
    fake_file("/sys/devices/system/node/online", "0-1,3\n");
    assert_int_equal(changes(), 1);
    assert_int_equal(topology.home_of_node[2], 0);
    check_all(NULL, 0);
}

/* Nothing that can be read changes nothing. */
TEST(no_files)
{
    uint64_t online = topology.online_cpus[0];
    unsigned node = topology_node(1);

    topology_root = "/nonexistent";
    assert_true(stook_topology_update(NULL) == 0);
    assert_int_equal(topology.online_cpus[0], online);
    assert_int_equal(topology.nodes, 4);
    assert_int_equal(topology.home_of_node[3], 3);
    topology_root = fake_root;
    assert_true(stook_topology_update(NULL) == 0);
    assert_int_equal(topology_node(1), node);
    assert_int_equal(topology.home_of_node[1], 3);
    assert_int_equal(changes(), 0);
}
