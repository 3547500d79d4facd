/* SPDX-License-Identifier: MIT */
/* timeout: 120 */
/*
 * Threads allocate, free and pass objects on on a simulated machine while its CPUs and the memory of its nodes go
 * and come, and another thread asks for scans.  No object is allocated twice, none is lost, and at the end no object
 * lies on a CPU that is offline.
 */
#include "percpu/percpu.h"
#include "sheaf/slot_drain.h"
#include "support/check.h"
#include "support/random.h"
#include "support/topology_child.h"

#include <stook/stook.h>
#include <stook/topology.h>

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

enum { THREADS = 8, CACHES = 3, HOLD = 200, ROUNDS = 400, CHANGES = 300, SHELF = 64 };

static const char machine[] = "node:3 core:3 memory:0,2=1G cpus:5=40 distance:*=30 distance:1/2=20";
static struct stook_cache *cache[CACHES];
static _Atomic(void *) shelf[CACHES][SHELF]; /* objects on their way to another thread */
static _Atomic unsigned working;
static _Atomic uint64_t errors;

struct worker {
    pthread_t thread;
    uint64_t random;
    void *object[CACHES][HOLD];
    unsigned n[CACHES];
};

/* While an object is out its first word says so. */
static void take(struct worker *w, unsigned c)
{
    uint64_t *object = stook_alloc(cache[c], 0);

    if (!object)
        return;
    if (__atomic_exchange_n(object, (uint64_t)(uintptr_t)object, __ATOMIC_RELAXED) ==
        (uint64_t)(uintptr_t)object)
        atomic_fetch_add(&errors, 1);
    w->object[c][w->n[c]++] = object;
}

static void give(unsigned c, void *object)
{
    if (__atomic_exchange_n((uint64_t *)object, 0, __ATOMIC_RELAXED) != (uint64_t)(uintptr_t)object)
        atomic_fetch_add(&errors, 1);
    stook_free(cache[c], object);
}

static void *work(void *arg)
{
    struct worker *w = arg;

    for (unsigned round = 0; round < ROUNDS; round++) {
        unsigned c = random_below(&w->random, CACHES), n = random_below(&w->random, HOLD);
        if (random_below(&w->random, 4) == 0) /* EINVAL where it is offline: stays where it is */
            (void)stook_topology_cpu((int)random_below(&w->random, 9));
        while (w->n[c] < n)
            take(w, c);
        while (w->n[c] > n) {
            void *object = w->object[c][--w->n[c]], *other;
            other = atomic_exchange(&shelf[c][random_below(&w->random, SHELF)], object);
            if (other)
                give(c, other);
        }
    }
    for (unsigned c = 0; c < CACHES; c++)
        while (w->n[c] > 0)
            give(c, w->object[c][--w->n[c]]);
    atomic_fetch_sub(&working, 1);
    return NULL;
}

/* All fail as they should, where they must: the last CPU, the last memory. */
static void change(uint64_t *random)
{
    unsigned what = random_below(random, 16);
    int online = random_below(random, 2) != 0, r = 0;

    errno = 0;
    if (what < 9)
        r = stook_topology_cpu_online((int)what, online);
    else if (what == 9)
        r = stook_topology_cpu_online(40, online);
    else if (what < 14)
        r = stook_topology_memory_online(what < 13 ? (int)what - 10 : 5, online);
    else if (stook_topology_update(NULL) != 0)
        r = -1;
    if (r != 0 && errno != EBUSY)
        atomic_fetch_add(&errors, 1);
}

TEST_IN_CHILD(cpus_and_nodes_come_and_go)
{
    static struct worker worker[THREADS];
    struct stook_cache_args args = {.size = sizeof(args), .sheaf_capacity = 12};
    uint64_t random = 5;

    MUST(stook_topology_set(machine) == 0);
    MUST((cache[0] = stook_cache_create("small", 64, &args)) != NULL);
    MUST((cache[1] = stook_cache_create("middle", 320, NULL)) != NULL);
    MUST((cache[2] = stook_cache_create("large", 5000, NULL)) != NULL);
    atomic_store(&working, THREADS);
    for (unsigned i = 0; i < THREADS; i++) {
        worker[i].random = i + 1;
        MUST(pthread_create(&worker[i].thread, NULL, work, &worker[i]) == 0);
    }
    /* As long as they work, and some changes at least. */
    for (unsigned i = 0; i < CHANGES || atomic_load(&working) > 0; i++)
        change(&random);
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(worker[i].thread, NULL);
    for (unsigned c = 0; c < CACHES; c++)
        for (unsigned i = 0; i < SHELF; i++)
            if (shelf[c][i])
                give(c, shelf[c][i]);
    MUST(atomic_load(&errors) == 0);
    check_all(NULL, 0);
    MUST(stook_topology_update(NULL) == 0);
    for (unsigned cpu = 0; cpu < percpu.rows; cpu++)
        for (unsigned c = 0; c < CACHES && !topology_is_online(&topology, cpu); c++) {
            struct slot_counts counts = {0};
            slot_count_cpu(cache[c], cpu, &counts);
            MUST(counts.sheaves == 0);
        }
    check_all(NULL, 0);
    for (unsigned c = 0; c < CACHES; c++)
        MUST(stook_cache_destroy(cache[c]) == 0);
    check_all(NULL, 0);
    return 0;
}
