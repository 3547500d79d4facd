/* SPDX-License-Identifier: MIT */
/*
 * golden.h - the reports that death tests expect: tests/death/golden/NAME is a pattern of fnmatch(3), with * for addresses.
 * STOOK_TEST_UPDATE=1 prints what is said instead.
 */
#ifndef STOOK_TESTS_SUPPORT_GOLDEN_H
#define STOOK_TESTS_SUPPORT_GOLDEN_H

#include "support/test.h"

#include <fnmatch.h>

/* The file PREFIX and NAME, with a zero behind it. */
static void golden_read(const char *prefix, const char *name, char *buf, size_t size)
{
    const char *root = getenv("STOOK_SOURCE_DIR");
    char path[512];
    FILE *file;
    size_t n;

    snprintf(path, sizeof(path), "%s/tests/death/golden/%s%s", root ? root : ".", prefix, name);
    file = fopen(path, "r");
    if (!file)
        fail_msg("%s cannot be read", path);
    n = fread(buf, 1, size - 1, file);
    fclose(file);
    buf[n] = '\0';
}

static void (*golden_before)(void); /* in the child, where it is set */

/* Where it is set, what it leaves of a report is the golden text to the letter. */
static void (*golden_mask)(const char *said, char *masked);

static __attribute__((unused)) int golden_body(void *body)
{
    alarm(60); /* a hang is no report */
    if (golden_before)
        golden_before();
    (*(void (**)(void))body)();
    return 0;
}

/* In a child, which ends by the signal, or well if it is 0. */
static __attribute__((unused)) void golden_death(const char *name, void (*body)(void), int signal)
{
    struct child child;
    char golden[8192], masked[sizeof(child.error)];
    const char *said = child.error;

    child_run(&child, golden_body, &body);
    if (golden_mask) {
        golden_mask(child.error, masked);
        said = masked;
    }
    if (getenv("STOOK_TEST_UPDATE")) {
        printf("== %s\n%s", name, said);
        return;
    }
    golden_read("", name, golden, sizeof(golden));
    if ((signal ? !WIFSIGNALED(child.status) || WTERMSIG(child.status) != signal
                : !child_passed(&child)) ||
        (golden_mask ? strcmp(golden, said) : fnmatch(golden, said, 0)) != 0)
        fail_msg("status %#x\nwanted: %sgot:    %s", (unsigned)child.status, golden, said);
}

#ifndef GOLDEN_PREFIX
#define GOLDEN_PREFIX ""
#endif

/* A test: what the body does is reported as in the golden file of the function's name. */
#define DEATH(function, signal)                                                                    \
    static void function(void);                                                                    \
    TEST(function##_is_reported)                                                                   \
    {                                                                                              \
        golden_death(GOLDEN_PREFIX #function, function, signal);                                   \
    }                                                                                              \
    static void function(void)

#endif
