/* SPDX-License-Identifier: MIT */
/*
 * top_data.h - what stook top shows: a row a cache of one process, or a row a process of this host, with what has changed
 * since the snapshot before.
 */
#ifndef STOOK_TOOL_TOP_DATA_H
#define STOOK_TOOL_TOP_DATA_H

#include "look/heap.h"

enum { TOP_SIZE = 12 };

struct top_row {
    char name[HEAP_NAME];
    uint64_t key; /* of a cache: its address; of a process: its number */
    bool is_process, internal, torn;
    bool folded; /* all caches of the library's own, where these are not shown */
    uint64_t size, active, total, slabs;
    struct heap_bytes bytes;
    uint64_t rss, warm;      /* of a process: RSS as the kernel counts, free pages */
    uint64_t events, allocs; /* ever; allocs where they are counted */
    bool counted;
    char mode[16];
    /* A second, since the snapshot before; 0 in the first. */
    double growth, event_rate, alloc_rate;
};

enum top_sort {
    TOP_RESIDENT,
    TOP_IN_USE,
    TOP_CACHED,
    TOP_WASTED,
    TOP_GROWTH,
    TOP_RATE,
    TOP_OBJECTS,
    TOP_NAME,
    TOP_SORTS
};

struct top_data {
    struct heap *heap; /* of the process that is looked at; NULL: the host is */
    struct top_row *row;
    size_t rows;
    struct top_row *before;
    size_t old_rows;
    uint64_t time, time_before;
    struct heap_count total;
    uint64_t warm, rss;
    double growth;
    bool counted; /* one row has its allocations counted */
    unsigned refused;
};

/* The caches of a process: false with an error, and the rows stay as they were. */
bool top_read_caches(struct top_data *data, struct target_error *error);
/* The processes of the host. */
void top_read_processes(struct top_data *data);
/* Another process, or the host: nothing is known of before. */
void top_forget(struct top_data *data);

void top_sort(struct top_data *data, enum top_sort sort, bool inverted);
extern const char *const top_sort_names[TOP_SORTS + 1];

/* A size as in the tables of the report: "12.3M". */
const char *top_size(uint64_t bytes, char text[TOP_SIZE]);
/* With a sign: "+1.2M"; "" for none. */
const char *top_growth(double bytes, char text[TOP_SIZE]);

#endif
