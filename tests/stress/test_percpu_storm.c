/* SPDX-License-Identifier: MIT */
/*
 * The storm over the percpu layer as it is; once with its sections as they are, once with delays
 * between their steps.  Every token handed out exactly once, none lost, no slot left closed, and
 * one membarrier for all slots that a taker takes of a CPU.
 *
 * STOOK_TEST_MIGRATIONS=n goes on until n migrations were forced.
 */
#include "support/sections_widened.h"
#include "support/test.h"

#include "sheaf/slot.c"

#include "support/storm_run.h"

#ifndef MIGRATIONS
#define MIGRATIONS 0
#endif

enum { LEAST = 100 }; /* of each kind of event, if there are any */

static uint64_t migrations_wanted(void)
{
    const char *text = getenv("STOOK_TEST_MIGRATIONS");

    return text ? strtoull(text, NULL, 10) : MIGRATIONS;
}

static void check(const char *name, struct storm_args *args)
{
    struct storm_result result;

    args->takes = args->signals = LEAST;
    if (args->migrators && fixture_cpus > 1 && args->migrations < LEAST)
        args->migrations = LEAST;
    assert_true(storm_run(args, &result));
    storm_print(name, &result);
    if (result.errors)
        fail_msg("%lu errors; first: %s", (unsigned long)result.errors, result.first);
    assert_true(result.operations >= 64 * args->threads); /* how many depends on the machine */
}

TEST(test_storm)
{
    check("storm", &(struct storm_args){.threads = 16,
                                        .takers = 2,
                                        .migrators = 1,
                                        .seconds_tenths = 15,
                                        .migrations = migrations_wanted()});
}

TEST(test_storm_with_unregistered_threads)
{
    check("storm with unregistered threads",
          &(struct storm_args){
              .threads = 8, .unregistered = 3, .takers = 1, .migrators = 1, .seconds_tenths = 7});
}

/* Two threads stay where they are, nothing moves them: the takers alone are against them. */
TEST(test_storm_of_takers)
{
    check("storm of takers", &(struct storm_args){.threads = 2, .takers = 4, .seconds_tenths = 7});
}

int main(void)
{
    fixture_start();
    printf("mode: %s, %u CPUs\n", percpu.rseq ? "rseq" : "locked", fixture_cpus);
    return tests_run(NULL, NULL);
}
