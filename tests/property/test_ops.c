/* SPDX-License-Identifier: MIT */
/*
 * Random programs of calls against a model (support/ops.h).  STOOK_TEST_SEED=n runs that one only;
 * with -fsanitize=fuzzer and FUZZER defined the file is a fuzzer's target instead.
 */
#include "support/ops.h"
#include "support/random.h"

#include <stdio.h>
#include <stdlib.h>

#ifdef FUZZER
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    struct ops_counts counts;

    ops_run(bytes, n, 16, &counts);
    return 0;
}
#else
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#ifndef SEEDS
#define SEEDS 16
#endif
enum { LENGTH = 12000 };

static void run_seed(uint64_t seed, unsigned every, struct ops_counts *sum)
{
    static uint8_t bytes[LENGTH];
    struct ops_counts counts;
    uint64_t state = seed;

    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (uint8_t)random_next(&state);
    printf("seed %llu\n", (unsigned long long)seed); /* the last line names the one that died */
    fflush(stdout);
    ops_run(bytes, sizeof(bytes), every, &counts);
    sum->allocated += counts.allocated;
    sum->freed += counts.freed;
    sum->refused += counts.refused;
    sum->destroyed += counts.destroyed;
    sum->checked += counts.checked;
}

static void random_programs(void **unused)
{
    const char *seed = getenv("STOOK_TEST_SEED");
    struct ops_counts sum = {0};

    (void)unused;
#ifdef SETUP_CHECK
    SETUP_CHECK;
#endif
    if (seed) {
        run_seed(strtoull(seed, NULL, 0), 1, &sum);
        return;
    }
    for (uint64_t i = 1; i <= SEEDS; i++)
        run_seed(i, 32, &sum);
    printf("%llu allocated, %llu freed, %llu caches, %llu checks\n",
           (unsigned long long)sum.allocated, (unsigned long long)sum.freed,
           (unsigned long long)sum.destroyed, (unsigned long long)sum.checked);
    /* The programs reached what they are there for. */
    assert_true(sum.allocated > 50000 && sum.allocated == sum.freed);
    assert_true(sum.refused > 0 && sum.destroyed > 100 && sum.checked > 500);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_programs)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
#endif
