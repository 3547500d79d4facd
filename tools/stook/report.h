/* SPDX-License-Identifier: MIT */
/*
 * report.h - the data of a process that stook report shows on its page (report_html.c, report_flame.c).
 */
#ifndef STOOK_TOOL_REPORT_H
#define STOOK_TOOL_REPORT_H

#include "look/heap.h"
#include "stook/look_names.h"

#include <stdio.h>

struct report_cache {
    uint32_t index;
    char name[HEAP_NAME];
    struct heap_bytes bytes;
};

struct report_snapshot {
    uint64_t time; /* CLOCK_MONOTONIC, ns */
    struct heap_bytes total;
    uint64_t process; /* resident bytes of the process; 0: unknown */
    struct report_cache *cache;
    size_t caches;
};

struct report {
    struct heap *heap; /* of the last snapshot */
    struct report_snapshot *snapshot;
    size_t snapshots;
};

/* The whole page. */
void report_html(const struct report *report, FILE *to);
/* The picture of call sites, or a sentence that says why there is none. */
void report_flame(const struct report *report, FILE *to);

/* Text of any origin, escaped. */
void report_text(FILE *to, const char *text);
/* "12.3 MiB" */
const char *report_bytes(uint64_t bytes, char text[32]);

#endif
