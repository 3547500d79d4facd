/* SPDX-License-Identifier: MIT */
/*
 * The calls of topology.h: a machine of another shape, for tests of code that cares about nodes.  Link with the library of
 * simulated machines (-L of lib/stook/sim).
 */
#include <stdio.h>

#include <stook/stook.h>
#include <stook/topology.h>

int main(void)
{
    struct stook_cache *cache;
    unsigned changes;
    void *object;

    /* CPUs and nodes that came or went since the last call; the library looks by itself now and then. */
    if (stook_topology_update(&changes) != 0)
        return 1;

    /* Before the first allocation: two nodes with two CPUs each. */
    if (stook_topology_set("node:2 core:2") != 0)
        return 1;
    cache = stook_cache_create("thing", 64, NULL);
    if (!cache || stook_topology_cpu(3) < 0) /* this thread is on the second node from here on */
        return 1;
    object = stook_alloc(cache, 0);
    if (!object || stook_topology_cpu_online(0, 0) != 0 || stook_topology_cpu_online(0, 1) != 0 ||
        stook_topology_memory_online(0, 0) != 0 || stook_topology_memory_online(0, 1) != 0)
        return 1;
    printf("of node %d\n", stook_node_of(object));
    stook_free(cache, object);
    return stook_cache_destroy(cache);
}
