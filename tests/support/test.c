/* SPDX-License-Identifier: MIT */
#include "support/test.h"

static struct test *tests; /* by their order */

void test_add(struct test *test)
{
    struct test **at = &tests;

    while (*at && (*at)->order < test->order)
        at = &(*at)->next;
    test->next = *at;
    *at = test;
}

int tests_run(CMFixtureFunction setup, CMFixtureFunction teardown)
{
    struct CMUnitTest *units;
    size_t n = 0;
    int failed;

    for (struct test *test = tests; test; test = test->next)
        n++;
    if (n == 0) {
        puts("skipped: nothing of it is for this machine and compiler");
        return 77;
    }
    units = calloc(n, sizeof(*units));
    if (!units)
        abort();
    n = 0;
    for (struct test *test = tests; test; test = test->next)
        units[n++] = test->unit;
    failed = _cmocka_run_group_tests("tests", units, n, setup, teardown);
    free(units);
    return failed;
}
