/* SPDX-License-Identifier: MIT */
/* needs: whole */
/* modes: default */
/*
 * Deferred objects on a machine of three nodes, one without memory.  They return to the barn of the node that the sheaf
 * was filled on, or of the node that all of them belong to.
 */
#include "os/topology.h"
#include "page/pagemap.h"
#include "support/rcu_by_hand.h"
#include "support/topology_child.h"

#include <stook/rcu.h>
#include <stook/topology.h>

enum { CPU_OF_0 = 0, CPU_OF_1 = 2, CPU_OF_2 = 4 };

static int begin(void)
{
    MUST(stook_topology_set("node:3 core:2 memory:0,2=4G") == 0);
    MUST(stook_rcu_set_ops(&ops) == 0);
    MUST(topology_node(CPU_OF_1) == 1 && topology_node(CPU_OF_2) == 2);
    MUST(!(topology.memory_nodes >> 1 & 1));
    cache = make(SIZE, CAPACITY, 0);
    return 0;
}

static int end(void)
{
    stook_rcu_barrier();
    check();
    while (held > 0)
        stook_free(cache, objects[--held]);
    MUST(stook_cache_destroy(cache) == 0);
    check_all(NULL, 0);
    return 0;
}

static uint32_t full(unsigned node)
{
    return cache->nodes[node].barn.nr_full;
}

/* All of another node: its barn gets the sheaf as it is. */
TEST_IN_CHILD(from_another_node)
{
    MUST(begin() == 0);
    stook_topology_cpu(CPU_OF_0);
    take(CAPACITY);
    stook_topology_cpu(CPU_OF_2);
    defer(CAPACITY);
    MUST(queued == 1 && full(0) == 0);
    stook_topology_cpu(CPU_OF_1); /* wherever the callback runs */
    pass();
    MUST(full(0) == 1 && full(1) == 0 && full(2) == 0);
    MUST(cache->nodes[0].barn.full->size == CAPACITY);
    return end();
}

/* Of two nodes: the barn it was filled on gets its own, the others go as any free. */
TEST_IN_CHILD(from_two_nodes)
{
    MUST(begin() == 0);
    stook_topology_cpu(CPU_OF_0);
    take(CAPACITY / 3);
    stook_topology_cpu(CPU_OF_2);
    take(CAPACITY - CAPACITY / 3);
    defer(CAPACITY);
    pass();
    MUST(full(2) == 1 && cache->nodes[2].barn.full->size == CAPACITY - CAPACITY / 3);
    for (unsigned i = 0; i < cache->nodes[2].barn.full->size; i++)
        MUST(pagemap_node(cache->nodes[2].barn.full->object[i]) == 2);
    return end();
}

/* A node without memory has a barn; objects of its home are its own. */
TEST_IN_CHILD(on_a_memoryless_node)
{
    unsigned home;

    MUST(begin() == 0);
    home = topology.home_of_node[1];
    stook_topology_cpu(CPU_OF_1);
    take(CAPACITY);
    MUST(pagemap_node(objects[0]) == home);
    defer(CAPACITY);
    pass();
    MUST(full(1) == 1 && full(home) == 0);
    return end();
}
