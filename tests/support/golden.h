/* SPDX-License-Identifier: MIT */
/* golden.h - the reports that death tests expect: tests/death/golden/. */
#ifndef STOOK_TESTS_SUPPORT_GOLDEN_H
#define STOOK_TESTS_SUPPORT_GOLDEN_H

#include "support/test.h"

#include <stdio.h>
#include <stdlib.h>

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

#endif
