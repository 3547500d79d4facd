/* SPDX-License-Identifier: MIT */
/* timeout: 120 */
/*
 * Several nodes: barns on nodes without memory, objects that are freed far from home, memory of
 * other nodes where the home's is short.
 */
#include "base/settings.h"
#include "sheaf/barn.h"
#include "slab/node.h"
#include "support/check.h"
#include "support/random.h"
#include "support/topology_cache.h"
#include "support/topology_child.h"

#include <stook/stook.h>
#include <stook/topology.h>

#include <unistd.h>

static void on(int cpu)
{
    if (stook_topology_cpu(cpu) < 0)
        abort();
}

static uint64_t made(void)
{
    uint64_t sum = 0;

    for (unsigned i = 0; i < topology.nodes; i++)
        sum += cache->nodes[i].node.made;
    return sum;
}

static uint64_t took(void)
{
    uint64_t sum = 0;

    for (unsigned i = 0; i < topology.nodes; i++)
        sum += cache->nodes[i].node.took;
    return sum;
}

/* CPUs 8 and 9 are of node 2, which has no memory; their home is node 1. */
TEST_IN_CHILD(memoryless_pair)
{
    uint64_t slabs = 0, locks = 0, gets = 0;

    MUST(set(DOCUMENT));
    MUST(topology_node(8) == 2 && topology_home(8) == 1);
    for (int round = 0; round < 100; round++) {
        on(9);
        take(0, 3 * CAPACITY);
        MUST(pagemap_node(objects[0]) == 1);
        on(8);
        give(0, 3 * CAPACITY);
        if (round == 49)
            slabs = made(), locks = took(), gets = cache->nodes[2].barn.get;
    }
    /* Sheaves went round through their own node's barn; no slab was touched. */
    MUST(made() == slabs && took() == locks);
    MUST(cache->nodes[2].barn.get >= gets + 50 * 2 && cache->nodes[1].barn.get == 0);
    return end();
}

/* Allocated on node 2 (home 1), freed on node 6 (home 5): the sheaves come home. */
TEST_IN_CHILD(far_pair)
{
    uint64_t slabs = 0, locks = 0, gets = 0;

    MUST(set(DOCUMENT));
    MUST(topology_home(8) == 1 && topology_home(24) == 5);
    for (int round = 0; round < 100; round++) {
        on(8);
        take(0, 4 * CAPACITY);
        for (unsigned i = 0; i < 4 * CAPACITY; i++)
            MUST(pagemap_node(objects[i]) == 1);
        on(24);
        give(0, 4 * CAPACITY);
        if (round == 49)
            slabs = made(), locks = took(), gets = cache->nodes[1].barn.get;
    }
    MUST(made() == slabs && took() == locks);
    MUST(cache->nodes[1].barn.get >= gets + 50 * 3);
    MUST(cache->nodes[6].barn.put == 0 && cache->nodes[5].barn.put == 0);
    return end();
}

/* A CPU that frees objects of many nodes, mixed: each owner's barn gets its own. */
TEST_IN_CHILD(mixed_frees)
{
    uint64_t random = 1;
    unsigned n = 0;

    MUST(set("node:8 core:2"));
    for (int round = 0; round < 30; round++) {
        for (n = 0; n < MANY; n++) {
            on((int)(2 * (random_next(&random) % 8)));
            MUST((objects[n] = stook_alloc(cache, 0)) != NULL);
        }
        on(3);
        for (; n > 0; n--) {
            unsigned k = (unsigned)(random_next(&random) % n);
            stook_free(cache, objects[k]);
            objects[k] = objects[n - 1];
        }
        check_all(NULL, 0);
        for (unsigned i = 0; i < 8; i++)
            for (struct sheaf *s = cache->nodes[i].barn.full; s; s = s->next)
                for (uint32_t k = 0; k < s->size; k++)
                    MUST(pagemap_node(s->object[k]) == i);
    }
    MUST(cache->nodes[6].barn.put > 0);
    return end();
}

/* A new slab of the home comes before another node's partial one. */
TEST_IN_CHILD(own_slab_first)
{
    struct stook_cache_args args = {.size = sizeof(args), .flags = STOOK_CACHE_NOSHEAF};
    uint64_t slabs;
    void *one[2];

    MUST(stook_topology_set("node:2 core:1") == 0);
    MUST((cache = stook_cache_create("nodes", 320, &args)) != NULL);
    on(0);
    MUST((one[0] = stook_alloc(cache, 0)) && pagemap_node(one[0]) == 0);
    on(1);
    slabs = made();
    MUST((one[1] = stook_alloc(cache, 0)) && pagemap_node(one[1]) == 1 && made() == slabs + 1);
    for (int i = 0; i < 2; i++)
        stook_free(cache, one[i]);
    return end();
}

/* Nothing splits the arena between nodes: one takes what there is, as long as there is some. */
TEST_IN_CHILD(memory_of_others)
{
    static void *held[4096];
    unsigned n = 0, of[2] = {0};

    MUST(setenv("STOOK_ARENA", "64M", 1) == 0);
    settings_read(environ, false);
    MUST(stook_topology_set("node:2 core:1") == 0);
    MUST((cache = stook_cache_create("nodes", 200000, NULL)) != NULL);
    on(0);
    while (n < 4096 && (held[n] = stook_alloc(cache, 0)))
        of[pagemap_node(held[n++])]++;
    MUST(n < 4096 && of[0] > 40 && of[0] + of[1] == n);
    while (n > 0)
        stook_free(cache, held[--n]);
    return end();
}
