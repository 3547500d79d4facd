/* SPDX-License-Identifier: MIT */
/*
 * Random programs of calls against a model (support/ops.h).  A failure names its seed, and
 * STOOK_TEST_SEED=n runs that one only (STOOK_TEST_EVERY=1: all is checked after each step,
 * which itself changes where objects lie); STOOK_TEST_ROUNDS=n runs n times as many.  Fuzzing
 * runs the same interpreter: fuzz/ops_*.c.
 */
#include "support/ops.h"
#include "support/random.h"
#include "support/scale.h"
#include "support/test.h"

#include <stook/stook.h>
#include <stook/topology.h>

#include <sys/mman.h>

#ifndef SEEDS
#define SEEDS 10
#endif
enum { LENGTH = 12000, EVERY = 32 };

#ifndef CAPACITIES
#define CAPACITIES 1 /* caches have sheaves */
#endif
#ifndef TOPOLOGIES
#define TOPOLOGIES 0
#endif

static struct ops_counts *counts; /* shared with children */

/* Each in a child of its own: it starts from nothing, and a process has one topology. */
static int run_seed(void *arg)
{
    static uint8_t bytes[LENGTH];
    const char *every = getenv("STOOK_TEST_EVERY");
    uint64_t seed = *(uint64_t *)arg, state = seed;

    if (TOPOLOGIES) {
        char text[OPS_TOPOLOGY_TEXT];
        ops_topology_text(seed, text);
        fprintf(stderr, "%s\n", text);
        if (stook_topology_set(text) != 0)
            return 1;
    }
    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (uint8_t)random_next(&state);
    ops_run(bytes, sizeof(bytes), every ? (unsigned)atoi(every) : EVERY, counts);
    return 0;
}

static void run_one(uint64_t seed, struct ops_counts *sum)
{
    static struct child child;

    child_run(&child, run_seed, &seed);
    if (!child_passed(&child))
        fail_msg("STOOK_TEST_SEED=%llu", (unsigned long long)seed);
    ops_add(sum, counts);
}

TEST(random_programs)
{
    const char *seed = getenv("STOOK_TEST_SEED");
    uint64_t seeds = scaled(SEEDS);
    struct ops_counts sum = {0};

#ifdef SETUP_CHECK
    SETUP_CHECK;
#endif
    counts = mmap(NULL, sizeof(*counts), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(counts != MAP_FAILED);
    if (seed) {
        run_one(strtoull(seed, NULL, 0), &sum);
        ops_print(&sum);
        return;
    }
    for (uint64_t i = 1; i <= seeds; i++)
        run_one(i, &sum);
    ops_print(&sum);
    /* The programs reached what they are there for. */
    assert_true(sum.allocated > 1000 * seeds && sum.allocated == sum.freed);
    assert_true(sum.destroyed >= 6 * seeds && sum.checked >= 20 * seeds);
#ifndef STOOK_CORE
    assert_true(sum.deferred > 100 * seeds && sum.sheaves > seeds && sum.pools > 0);
    assert_true(sum.charged > 2 * seeds);
#endif
    /* Of one program alone it may be that no handler interrupted the library. */
    assert_true(sum.handled > seeds && (sum.inside > 0 || seeds == 1));
    /* Debug caches have none. */
    assert_true(CAPACITIES ? sum.capacities > 2 * seeds || getenv("STOOK_DEBUG")
                           : sum.capacities == 0);
    assert_true(sum.of_node > 5 * seeds && (!TOPOLOGIES || sum.moved > 50 * seeds));
}
