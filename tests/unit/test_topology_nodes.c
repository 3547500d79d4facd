/* SPDX-License-Identifier: MIT */
/* timeout: 120 */
/*
 * On simulated machines: on whose node objects are, and threads that wander from CPU to CPU.
 */
#include "os/topology.h"
#include "page/pagemap.h"
#include "support/check.h"
#include "support/random.h"
#include "support/topology_child.h"

#include <stook/stook.h>
#include <stook/topology.h>

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

/* From every CPU objects come from its home; two sizes, so that slabs of several orders are there. */
static int take_everywhere(void *arg)
{
    enum { EACH = 3 };
    static struct check_object held[2 * EACH * 512];
    struct stook_cache *cache[2];
    unsigned zones = 1;
    size_t n = 0;

    MUST(stook_topology_set(arg) == 0);
    while (zones < topology.nodes)
        zones *= 2;
    MUST(pagemap.zones == 2 * zones);
    MUST((cache[0] = stook_cache_create("small", 320, NULL)) != NULL);
    MUST((cache[1] = stook_cache_create("large", 20000, NULL)) != NULL);
    for (unsigned cpu = 0; cpu < topology.cpus; cpu++) {
        unsigned home = topology_home(cpu);
        if (!topology_has_cpu(&topology, cpu))
            continue;
        MUST(stook_topology_cpu((int)cpu) >= 0);
        MUST(topology.memory_nodes >> home & 1);
        for (unsigned i = 0; i < 2 * EACH && n < sizeof(held) / sizeof(held[0]); i++) {
            void *object = stook_alloc(cache[i % 2], 0);
            MUST(object && pagemap_covers(object));
            if (pagemap_node(object) != home) {
                fprintf(stderr, "%s: CPU %u: node %u, home %u\n", (const char *)arg, cpu,
                        pagemap_node(object), home);
                return 1;
            }
            memset(object, 0xa5, stook_usable_size(object));
            held[n++] = (struct check_object){cache[i % 2], object};
        }
    }
    check_all(held, n);
    /* All of them freed from one CPU, and everything goes back. */
    while (n > 0) {
        n--;
        stook_free(held[n].cache, held[n].object);
    }
    check_all(NULL, 0);
    MUST(stook_cache_destroy(cache[0]) == 0 && stook_cache_destroy(cache[1]) == 0);
    check_all(NULL, 0);
    return 0;
}

TEST(objects_come_from_home)
{
    static const char *const texts[] = {
        "node:1",
        "node:8",
        "node:16",
        "node:64 core:2",
        "cpus:0=0-1 memory:1=1G",
        "cpus:7=3 memory:2=1G memory:9=1G distance:*=30 distance:7/9=29"};
    static const char *const files[] = {"ublk",        "one-node",       "two-sockets",
                                        "eight-nodes", "one-memoryless", "sub-numa",
                                        "cxl",         "large",          "gaps"};
    char path[600];

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        in_child(take_everywhere, (void *)(uintptr_t)texts[i]);
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        snprintf(path, sizeof(path), "%s/%s.topo", folder, files[i]);
        in_child(take_everywhere, path);
    }
}

/* ---- threads that wander --------------------------------------------------------------------- */

enum { WANDERERS = 4, EXCHANGE = 256, STEPS = 40000 };

static struct {
    struct stook_cache *cache;
    _Atomic(uint64_t *) exchange[EXCHANGE];
    _Atomic unsigned wrong;
} wander;

/* Objects change hands in the exchange; each carries its own address while it is out. */
static void *wander_thread(void *arg)
{
    uint64_t state = (uintptr_t)arg;

    for (int i = 0; i < STEPS; i++) {
        uint64_t *object = NULL;
        if (random_below(&state, 4) == 0) /* some CPUs are gaps: it stays where it was */
            stook_topology_cpu((int)random_below(&state, topology.cpus));
        if (random_below(&state, 2)) {
            object = stook_alloc(wander.cache, 0);
            if (!object || *object == (uintptr_t)object)
                wander.wrong++;
            if (object)
                *object = (uintptr_t)object;
        }
        object = atomic_exchange(&wander.exchange[random_below(&state, EXCHANGE)], object);
        if (object) {
            if (*object != (uintptr_t)object)
                wander.wrong++;
            *object = 0;
            stook_free(wander.cache, object);
        }
    }
    return NULL;
}

static void wander_construct(void *object, void *arg)
{
    *(uint64_t *)object = 0; /* it is not in use */
}

static int run_wanderers(void *arg)
{
    struct stook_cache_args args = {.size = sizeof(args), .ctor = wander_construct};
    pthread_t thread[WANDERERS];

    MUST(stook_topology_set(arg) == 0);
    MUST((wander.cache = stook_cache_create("x", 320, &args)) != NULL);
    for (uintptr_t i = 0; i < WANDERERS; i++)
        MUST(pthread_create(&thread[i], NULL, wander_thread, (void *)(i + 1)) == 0);
    for (unsigned i = 0; i < WANDERERS; i++)
        MUST(pthread_join(thread[i], NULL) == 0);
    for (unsigned i = 0; i < EXCHANGE; i++)
        if (wander.exchange[i]) {
            *wander.exchange[i] = 0;
            stook_free(wander.cache, wander.exchange[i]);
        }
    MUST(wander.wrong == 0);
    check_all(NULL, 0);
    MUST(stook_cache_destroy(wander.cache) == 0);
    check_all(NULL, 0);
    return 0;
}

TEST(wanderers)
{
    char path[600];

    in_child(run_wanderers, (void *)(uintptr_t)DOCUMENT);
    snprintf(path, sizeof(path), "%s/gaps.topo", folder);
    in_child(run_wanderers, path);
}

int main(void)
{
    topology_find_folder();
    return tests_run(NULL, NULL);
}
