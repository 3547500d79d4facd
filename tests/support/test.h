/* SPDX-License-Identifier: MIT */
/*
 * test.h - what each test includes: cmocka, children, the headers that most tests use, and tests that need no list.
 *
 *     TEST(sheaves_are_few)
 *     {
 *         assert_int_equal(...);
 *     }
 *
 * The file's tests run in the order in which they stand in it; support/main.c has the main() that runs them.  A test
 * that needs something at the start has a main() of its own, which ends with `return tests_run(NULL, NULL)`.
 */
#ifndef TESTS_SUPPORT_TEST_H
#define TESTS_SUPPORT_TEST_H

#include "support/child.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef __cplusplus
extern "C" {
#endif

#include <cmocka.h>

struct test {
    struct CMUnitTest unit;
    struct test *next;
    int order; /* compilers put constructors in any order */
};

void test_add(struct test *test);

/* What failed; `setup` and `teardown` are around all of them. */
int tests_run(CMFixtureFunction setup, CMFixtureFunction teardown);

#ifdef __cplusplus
}
#endif

/* `setup` and `teardown` of cmocka, NULL for none, are around this test. */
#define TEST_WITH(function, setup, teardown)                                                       \
    static void function(void **test_state);                                                       \
    __attribute__((constructor)) static void function##_is_a_test(void)                            \
    {                                                                                              \
        static struct test test = {                                                                \
            {#function, function, setup, teardown, NULL}, NULL, __COUNTER__};                      \
        test_add(&test);                                                                           \
    }                                                                                              \
    static void function(void **test_state)

#define TEST(function) TEST_WITH(function, NULL, NULL)

static inline void in_child(int (*body)(void *arg), void *arg)
{
    struct child child;

    child_run(&child, body, arg);
    assert_true(child_passed(&child));
}

/* Its body runs in a child, and returns 0 if all is well: support/must.h. */
#define TEST_IN_CHILD(function)                                                                    \
    static int function##_body(void *unused);                                                      \
    TEST(function)                                                                                 \
    {                                                                                              \
        in_child(function##_body, NULL);                                                           \
    }                                                                                              \
    static int function##_body(void *unused)

#endif
