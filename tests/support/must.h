/* SPDX-License-Identifier: MIT */
/*
 * must.h - a condition in a child or a thread, where cmocka's assertions cannot be used: else the function returns 1,
 * or does what the file defined as MUST_FAILS before.
 */
#ifndef TESTS_SUPPORT_MUST_H
#define TESTS_SUPPORT_MUST_H

#include <stdio.h>

#ifndef MUST_FAILS
#define MUST_FAILS return 1
#endif

#define MUST(condition)                                                                            \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                        \
            MUST_FAILS;                                                                            \
        }                                                                                          \
    } while (0)

#endif
