/* SPDX-License-Identifier: MIT */
#include "support/test.h"

#include <stdlib.h>

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
    struct CMUnitTest *units = NULL;
    size_t n = 0;
    int failed;

    for (struct test *test = tests; test; test = test->next)
        n++;
    units = calloc(n, sizeof(*units));
    if (!units || n == 0)
        abort();
    n = 0;
    for (struct test *test = tests; test; test = test->next)
        units[n++] = test->unit;
    failed = _cmocka_run_group_tests("tests", units, n, setup, teardown);
    free(units);
    return failed;
}
