/* SPDX-License-Identifier: MIT */
/* tagged.h - bytes of a cache's slabs: of those with room for tags, and of all. */
#ifndef TESTS_SUPPORT_TAGGED_H
#define TESTS_SUPPORT_TAGGED_H

#include "os/topology.h"
#include "slab/node.h"

static inline void tagged_bytes(const struct stook_cache *cache, uint64_t *tagged, uint64_t *total)
{
    *tagged = atomic_load_explicit(&cache->tagged, memory_order_relaxed);
    *total = 0;
    for (unsigned i = 0; i < topology.nodes; i++) {
        struct node_counts counts;
        node_count(cache, i, &counts);
        *total += counts.pages << PAGE_SHIFT;
    }
}

#endif
