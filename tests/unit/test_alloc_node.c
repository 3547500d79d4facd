/* SPDX-License-Identifier: MIT */
/* needs: whole */
/* modes: default */
/*
 * Objects of a node that the caller names.  Each is of that node, or of the nearest with memory, or there is none.
 * From every CPU, for every node, in handlers, of any size; and all of them return to their nodes.
 */
#include "base/context.h"
#include "percpu/percpu.h"
#include "page/pagemap.h"
#include "slab/cache.h"
#include "support/check.h"
#include "support/random.h"
#include "support/topology_child.h"
#include "support/with.h"

#include <stook/group.h>
#include <stook/kmem.h>
#include <stook/topology.h>

#include <string.h>

/* Nodes 1 and 5 have memory, 3 has no CPUs but memory, 4 and 6 are not there. */
#define MACHINE                                                                                    \
    "cpus:0=0-1 cpus:1=2-3 cpus:2=4-5 cpus:5=6-7 cpus:7=8-9 memory:1=1G memory:3=1G memory:5=1G "  \
    "distance:0/1=12 distance:0/3=30 distance:0/5=40 distance:2/5=12 distance:7/3=12"

enum { CAPACITY = 14, MANY = 30 * CAPACITY, CPUS = 10 };

static struct stook_cache *cache;
static struct check_object held[2 * MANY];
static size_t holding;

static bool start(const char *text)
{
    struct stook_cache_args args = {.size = sizeof(args), .sheaf_capacity = CAPACITY};

    if (stook_topology_set(text) != 0)
        return false;
    cache = stook_cache_create("by node", 300, &args);
    return cache != NULL;
}

static int give_all(uint64_t *state)
{
    while (holding > 0) {
        if (random_below(state, 8) == 0)
            MUST(stook_topology_cpu((int)random_below(state, CPUS)) >= 0);
        stook_free(held[holding - 1].cache, held[holding - 1].object);
        holding--;
    }
    return 0;
}

static int of_each_node(void *arg)
{
    static const int homes[] = {1, 1, 5, 3, -1, 5, -1, 3};
    uint64_t state = 1;

    MUST(start(MACHINE));
    for (int cpu = 0; cpu < CPUS; cpu++) {
        for (int node = 0; node < 8; node++) {
            MUST(stook_topology_cpu(cpu) >= -1);
            for (unsigned i = 0; i < CAPACITY + 3; i++) {
                unsigned flags = random_below(&state, 2) ? STOOK_ZERO : STOOK_NORECLAIM;
                char *object;
                errno = 0;
                object = alloc_with_node(cache, flags, node);
                MUST((object == NULL) == (homes[node] < 0));
                MUST(object || errno == EINVAL);
                if (!object)
                    continue;
                MUST((int)pagemap_node(object) == homes[node]);
                for (unsigned b = 0; flags == STOOK_ZERO && b < 300; b++)
                    MUST(object[b] == 0);
                memset(object, 0x5a, 300);
                held[holding++] = (struct check_object){cache, object};
                errno = 0;
                object = alloc_with_node(cache, STOOK_THISNODE | STOOK_SIGNAL_SAFE, node);
                MUST((object == NULL) == (homes[node] != node));
                MUST(object ? (int)pagemap_node(object) == node : errno == ENOMEM);
                stook_free(cache, object);
            }
        }
        check_all(held, holding);
        MUST(give_all(&state) == 0);
    }
    MUST(stook_topology_cpu(0) >= 0);
    MUST(!alloc_with_node(cache, 0, 8) && !alloc_with_node(cache, 0, -2));
    errno = 0;
    MUST(!alloc_with_node(cache, 0x800, 1) && errno == EINVAL);
    MUST(!stook_alloc(cache, STOOK_THISNODE)); /* of which? */
    held[0].object = alloc_with_node(cache, 0, -1);
    MUST(held[0].object);
    stook_free(cache, held[0].object);
    MUST(stook_cache_destroy(cache) == 0);
    check_all(NULL, 0);
    return 0;
}

/* Takers of another node's objects find the sheaves that came home, not only slabs. */
static int from_barns(void *arg)
{
    uint64_t made;

    MUST(start("node:2 core:2 memory:0,1=1G"));
    MUST(stook_topology_cpu(2) >= -1); /* of node 1 */
    for (; holding < MANY; holding++)
        held[holding] = (struct check_object){cache, stook_alloc(cache, 0)};
    while (holding > 0)
        stook_free(cache, held[--holding].object);
    MUST(cache->nodes[1].barn.nr_full > 0);
    made = cache->nodes[1].node.took;
    MUST(stook_topology_cpu(0) >= 0);
    for (; holding < CAPACITY; holding++) {
        held[holding] = (struct check_object){cache, alloc_with_node(cache, STOOK_SIGNAL_SAFE, 1)};
        MUST(pagemap_node(held[holding].object) == 1);
    }
    MUST(cache->nodes[1].node.took == made); /* no slab was touched */
    check_all(held, holding);
    while (holding > 0)
        stook_free(cache, held[--holding].object);
    MUST(stook_cache_destroy(cache) == 0);
    check_all(NULL, 0);
    return 0;
}

/* A handler that interrupted the library, and what has no sheaves or a constructor. */
static void construct(void *object, void *arg)
{
    memset(object, 7, 300);
}

static int in_handlers(void *arg)
{
    struct stook_cache_args args = {.size = sizeof(args), .flags = STOOK_CACHE_NOSHEAF};

    MUST(start(MACHINE));
    for (int turn = 0; turn < 3; turn++) {
        if (turn > 0) {
            MUST(stook_cache_destroy(cache) == 0);
            args.ctor = turn == 2 ? construct : NULL;
            MUST((cache = stook_cache_create("by node", 300, &args)) != NULL);
        }
        (void)context_enter();
        for (int node = 0; node < 4; node++) {
            char *object = alloc_with_node(cache, STOOK_SIGNAL_SAFE, node);
            MUST(object && (turn < 2 || object[299] == 7));
            held[holding++] = (struct check_object){cache, object};
        }
        context_leave();
        check_all(held, holding);
        while (holding > 0)
            stook_free(cache, held[--holding].object);
    }
    errno = 0;
    MUST(!alloc_with_node(cache, STOOK_ZERO, 3) && errno == EINVAL); /* it has a constructor */
    MUST(stook_cache_destroy(cache) == 0);
    check_all(NULL, 0);
    return 0;
}

static int kernel_names(void *arg)
{
    static const size_t sizes[] = {8, 100, 4000, 9000, 100000, 3 << 20};
    struct kmem_cache *things;
    void *object;

    MUST(stook_topology_set(MACHINE) == 0);
    MUST(stook_topology_cpu(0) >= -1);
    MUST((things = kmem_cache_create("things", 64, 0, 0, NULL)) != NULL);
    for (int node = 0; node < 4; node++) {
        int home = node == 2 ? 5 : node == 3 ? 3 : 1;
        MUST((object = kmem_cache_alloc_node(things, GFP_KERNEL, node)) != NULL);
        MUST((int)pagemap_node(object) == home);
        kmem_cache_free(things, object);
        object = kmem_cache_alloc_node(things, GFP_KERNEL | __GFP_THISNODE | __GFP_ZERO, node);
        MUST((object != NULL) == (home == node));
        kmem_cache_free(things, object);
        for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
            MUST((object = kzalloc_node(sizes[i], GFP_KERNEL, node)) != NULL);
            MUST((int)pagemap_node(object) == home);
            for (size_t b = 0; b < ksize(object); b++)
                MUST(((char *)object)[b] == 0);
            memset(object, 1, ksize(object));
            kfree(object);
            object = kmalloc_node(sizes[i], GFP_NOWAIT | __GFP_THISNODE, node);
            MUST((object != NULL) == (home == node));
            kfree(object);
        }
    }
    MUST(!kmalloc_node(50, GFP_KERNEL | __GFP_THISNODE, 4) && errno == EINVAL);
    object = kmalloc_node(50, GFP_KERNEL, 4); /* there is no such node: any will do */
    MUST(object);
    kfree(object);
    MUST(kmalloc_node(0, GFP_KERNEL, 1) == ZERO_SIZE_PTR);
    object = kmem_cache_alloc_node(things, GFP_NOIO, NUMA_NO_NODE);
    MUST(object); /* what lay in this CPU's sheaf, wherever it is from */
    kmem_cache_free(things, object);
    kmem_cache_destroy(things);
    check_all(NULL, 0);
    return 0;
}

/* The next call finds no zeros on the stack by chance. */
static __attribute__((noinline)) void fill_stack(void)
{
    char bytes[8192];

    memset(bytes, 0x5a, sizeof(bytes));
    __asm__ volatile("" : : "r"(bytes) : "memory");
}

static int beyond_a_limit(void *arg)
{
    struct stook_cache_args args = {.size = sizeof(args), .flags = STOOK_CACHE_ACCOUNT};
    struct stook_group group;

    MUST(stook_topology_set(MACHINE) == 0);
    MUST((cache = stook_cache_create("charged", 300, &args)) != NULL);
    MUST((group = stook_group_create("at its limit", STOOK_NO_GROUP, 0)).id);
    (void)stook_group_enter(group);
    for (unsigned i = 0; i < 8; i++) { /* of this CPU's home and others, strictly or not */
        fill_stack();
        errno = 0;
        MUST(!alloc_with_node(cache, i & 1 ? STOOK_THISNODE : 0, i & 2 ? 5 : 1));
        MUST(errno == EDQUOT);
        MUST(stook_topology_cpu(i < 4 ? 2 : 6) >= 0);
    }
    (void)stook_group_enter(STOOK_NO_GROUP);
    MUST(stook_group_destroy(group) == 0 && stook_cache_destroy(cache) == 0);
    check_all(NULL, 0);
    return 0;
}

TEST(each)
{
    static int (*const bodies[])(void *) = {of_each_node, from_barns, in_handlers, kernel_names,
                                            beyond_a_limit};

    for (size_t i = 0; i < sizeof(bodies) / sizeof(bodies[0]); i++)
        in_child(bodies[i], NULL);
}
