/* SPDX-License-Identifier: MIT */
/* needs: rseq native */
/* modes: own */
/* A program with librseq, which ends a process in which it cannot register a thread: the library leaves it to it. */
#include "percpu/percpu.h"
#include "support/test.h"

#include <stook/stook.h>

#include <string.h>

extern const unsigned __rseq_size __attribute__((weak));

int rseq_register_current_thread(void);
int rseq_register_current_thread(void)
{
    return -1;
}

TEST(test_librseq)
{
    const char *why;

    if (&__rseq_size && __rseq_size > 0)
        skip();
    assert_string_equal(stook_mode(&why), "locked");
    assert_non_null(strstr(why, "librseq"));
    assert_true(registration_cpu(registration_own()) < 0);
}
