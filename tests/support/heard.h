/* SPDX-License-Identifier: MIT */
/* heard.h - counts the reports of a program that continues after them: STOOK_ON_CORRUPTION=continue. */
#ifndef TESTS_SUPPORT_HEARD_H
#define TESTS_SUPPORT_HEARD_H

#include "support/test.h"

static _Atomic unsigned long heard;

static void hear(int level, const char *text, size_t length, void *arg)
{
    heard += strncmp(text, "BUG", 3) == 0;
}

/* So many reports since the last time. */
#define SAID(n)                                                                                    \
    do {                                                                                           \
        assert_int_equal(heard, n);                                                                \
        heard = 0;                                                                                 \
    } while (0)

#endif
