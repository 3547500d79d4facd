/* SPDX-License-Identifier: MIT */
/*
 * fail.c - STOOK_FAIL, in the syntax of the kernel's failslab= and the meaning of its members:
 *
 *   INTERVAL,PROBABILITY,SPACE,TIMES
 *
 *   interval     only each n-th call may fail
 *   probability  of these so many in a hundred do
 *   space        so many bytes are allocated first
 *   times        so many calls fail at most; -1: no limit
 */
#include "debug/fail.h"

#include "base/placed.h"
#include "base/report.h"
#include "base/settings.h"
#include "percpu/random.h"

#include <stdatomic.h>
#include <stdlib.h>

enum { FAIL_ALL = 100 };

/* Constant after fail_start(), except for the atomic fields. */
static struct {
    bool on;
    long interval, probability;
    _Atomic long calls, space, times;
} fail;

bool fail_read(const char *text)
{
    long number[4] = {1, 0, 0, 0};
    char *end = (char *)(uintptr_t)text;

    for (unsigned i = 0; i < 4; i++) {
        const char *begin = end;
        number[i] = strtol(begin, &end, 10);
        if (end == begin || (i < 3 && *end++ != ','))
            return false;
    }
    if (*end != '\0' || number[0] < 1 || number[1] < 0 || number[1] > FAIL_ALL || number[2] < 0 ||
        number[3] < -1)
        return false;
    fail.interval = number[0];
    fail.probability = number[1];
    atomic_store(&fail.space, number[2]);
    atomic_store(&fail.times, number[3]);
    atomic_store(&fail.calls, 0);
    fail.on = true;
    return true;
}

FIRST_TEXT void fail_start(void)
{
    const char *text = setting_text(SETTING_FAIL);

    if (!text || fail_read(text))
        return;
    setting_reset(SETTING_FAIL, SETTING_REFUSED);
    report_warn("STOOK_FAIL=%s: not INTERVAL,PROBABILITY,SPACE,TIMES; nothing fails", text);
}

bool fail_now(size_t bytes)
{
    long times;

    if (!fail.on)
        return false;
    times = atomic_load_explicit(&fail.times, memory_order_relaxed);
    if (times == 0)
        return false;
    if (atomic_load_explicit(&fail.space, memory_order_relaxed) > 0) {
        (void)atomic_fetch_sub_explicit(&fail.space, (long)bytes, memory_order_relaxed);
        return false;
    }
    if (fail.interval > 1 &&
        (atomic_fetch_add_explicit(&fail.calls, 1, memory_order_relaxed) + 1) % fail.interval != 0)
        return false;
    if (fail.probability < FAIL_ALL && (long)random_below(FAIL_ALL) >= fail.probability)
        return false;
    /* One of several threads has the last. */
    while (times > 0 &&
           !atomic_compare_exchange_weak_explicit(&fail.times, &times, times - 1,
                                                  memory_order_relaxed, memory_order_relaxed))
        ;
    return times != 0;
}
