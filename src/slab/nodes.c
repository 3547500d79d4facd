/* SPDX-License-Identifier: MIT */
#include "slab/nodes.h"

#include "percpu/random.h"
#include "os/topology.h"
#include "slab/stat.h"

static uint32_t nodes_take_partial(struct stook_cache *cache, unsigned node, void **objects,
                                   uint32_t min, uint32_t max, bool nospin)
{
    uint32_t got = node_take_partial(cache, topology_near(node, 0), objects, min, max, nospin);

    if (got >= min || cache->defrag_ratio == 0 || random_below(100) >= cache->defrag_ratio)
        return got;
    for (unsigned i = 1; i < topology.memories && got < min; i++) {
        uint32_t more = node_take_partial(cache, topology_near(node, i), objects + got, min - got,
                                          max - got, true);
        stat_add(cache, more > 0 ? STAT_remote_partial : STAT_remote_partial_fail, 1);
        got += more;
    }
    return got;
}

uint32_t nodes_take(struct stook_cache *cache, unsigned node, void **objects, uint32_t min,
                    uint32_t max, bool nospin)
{
    uint32_t got = 0;

    if (topology.memories > 1)
        got = nodes_take_partial(cache, node, objects, min, max, nospin);
    for (unsigned i = 0; i < topology.memories && got < min; i++)
        got +=
            node_take(cache, topology_near(node, i), objects + got, min - got, max - got, nospin);
    return got;
}
