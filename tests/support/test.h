/* SPDX-License-Identifier: MIT */
/*
 * test.h - what a test includes: cmocka with the headers that it wants, and tests that need no list.
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

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

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

#endif
