/* SPDX-License-Identifier: MIT */
/*
 * fail.c - STOOK_FAIL, in the syntax of the kernel's failslab= and the meaning of its members:
 *
 *   INTERVAL,PROBABILITY,SPACE,TIMES[,at=WHERE]
 *
 *   interval     only each n-th call may fail
 *   probability  of these so many in a hundred do
 *   space        so many bytes are allocated first
 *   times        so many calls fail at most; -1: no limit
 *   WHERE        calls from there alone, of which the numbers speak then: FUNCTION or FILE:LINE of a site
 *                (STOOK_SITES), or FROM-TO in hexadecimal: where calls return to, in the program's own file
 */
#include "debug/fail.h"

#include "base/placed.h"
#include "base/report.h"
#include "base/settings.h"
#include "percpu/random.h"

#include <stook/stook.h>

#include <link.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>

enum { FAIL_WHERE = 120, FAIL_ALL = 100 };

/* Constant after fail_start(), except for the atomic fields. */
static struct {
    bool on;
    long interval, probability;
    _Atomic long calls, space, times;
    char where[FAIL_WHERE]; /* "": anywhere */
    uintptr_t from, to;     /* from..to, where it has a range */
} fail;

/* What the program's own addresses are counted from. */
static uintptr_t fail_base(void)
{
    const ElfW(Phdr) *header = (const void *)getauxval(AT_PHDR); // NOLINT
    size_t n = getauxval(AT_PHNUM);

    for (size_t i = 0; header && i < n; i++)
        if (header[i].p_type == PT_PHDR)
            return (uintptr_t)header - header[i].p_vaddr;
    return 0;
}

/* False: it is none. */
static bool fail_range(const char *text)
{
    char *end;

    if (strncmp(text, "0x", 2) != 0)
        return false;
    fail.from = strtoul(text, &end, 16) + fail_base();
    if (*end != '-')
        return false;
    fail.to = strtoul(end + 1, &end, 16) + fail_base();
    return *end == '\0';
}

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
    if (number[0] < 1 || number[1] < 0 || number[1] > FAIL_ALL || number[2] < 0 || number[3] < -1)
        return false;
    fail.where[0] = '\0';
    fail.from = fail.to = 0;
    if (*end == ',') {
        if (strncmp(end, ",at=", 4) != 0 || end[4] == '\0' || strlen(end + 4) >= FAIL_WHERE)
            return false;
        strcpy(fail.where, end + 4);
        if (!fail_range(fail.where))
            fail.from = fail.to = 0;
    } else if (*end != '\0') {
        return false;
    }
    fail.interval = number[0];
    fail.probability = number[1];
    atomic_store(&fail.space, number[2]);
    atomic_store(&fail.times, number[3]);
    atomic_store(&fail.calls, 0);
    fail.on = true;
    return true;
}

static __attribute__((noinline, cold)) void fail_start_with(const char *text)
{
    if (fail_read(text))
        return;
    setting_reset(SETTING_FAIL, SETTING_REFUSED);
    report_warn("STOOK_FAIL=%s: not INTERVAL,PROBABILITY,SPACE,TIMES[,at=WHERE]; nothing fails",
                text);
}

FIRST_TEXT void fail_start(void)
{
    const char *text = setting_text(SETTING_FAIL);

    if (text)
        fail_start_with(text);
}

/* Whether `path`, or its last part, is the `length` bytes that name the file. */
static bool fail_is_file(const char *path, size_t length)
{
    const char *last = strrchr(path, '/');

    if (strlen(path) == length)
        return memcmp(path, fail.where, length) == 0;
    return last && strlen(last + 1) == length && memcmp(last + 1, fail.where, length) == 0;
}

static bool fail_at_site(const struct stook_site *site)
{
    const char *colon = strrchr(fail.where, ':');

    if (!colon)
        return strcmp(site->function, fail.where) == 0;
    return fail_is_file(site->file, (size_t)(colon - fail.where)) &&
           strtoul(colon + 1, NULL, 10) == site->line;
}

static bool fail_at(uint64_t where)
{
    uintptr_t address = (uintptr_t)(where >> 1);

    if (fail.where[0] == '\0')
        return true;
    if (where & 1)
        return fail_at_site((const struct stook_site *)address);
    return fail.to != 0 && address >= fail.from && address < fail.to;
}

bool fail_now(size_t bytes, uint64_t where)
{
    long times;

    if (!fail.on || !fail_at(where))
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
