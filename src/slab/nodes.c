/* SPDX-License-Identifier: MIT */
/*
 * nodes.c - takes objects from the home node first, then from the nearest node with memory.
 */
#include "slab/nodes.h"

#include "os/topology.h"

uint32_t nodes_take(struct stook_cache *cache, unsigned node, void **objects, uint32_t min,
                    uint32_t max, bool nospin)
{
    uint32_t got = 0;

    for (unsigned i = 0; i < topology.memories && got < min; i++)
        got +=
            node_take(cache, topology_near(node, i), objects + got, min - got, max - got, nospin);
    return got;
}
