/* SPDX-License-Identifier: MIT */
/*
 * stay.h - for a test that counts what one CPU's slot or stock has: its thread stays on the CPU that it
 * is on.  Whatever is not counted by CPU must not need this.
 */
#ifndef TESTS_SUPPORT_STAY_H
#define TESTS_SUPPORT_STAY_H

#include <sched.h>
#include <stdlib.h>

/* Aborts where the thread cannot be pinned to a CPU that it may run on.  Threads to come inherit it. */
static inline void stay_begin(cpu_set_t *before)
{
    cpu_set_t one;

    if (sched_getaffinity(0, sizeof(*before), before) != 0)
        abort();
    for (int tries = 0; tries < 100; tries++) { /* a CPU may go meanwhile */
        CPU_ZERO(&one);
        CPU_SET((unsigned)sched_getcpu(), &one);
        if (sched_setaffinity(0, sizeof(one), &one) == 0)
            return;
    }
    abort();
}

static inline void stay_end(const cpu_set_t *before)
{
    (void)sched_setaffinity(0, sizeof(*before), before);
}

#endif
