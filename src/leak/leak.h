/* SPDX-License-Identifier: MIT */
/*
 * leak.h - what stook_leaks() found: groups of objects of one cache, allocated at one place, of one kind.
 */
#ifndef STOOK_LEAK_LEAK_H
#define STOOK_LEAK_LEAK_H

#include "text/writer.h"
#include "leak/heap.h"
#include "slab/cache.h"

enum {
    LEAK_GROUPS = 16384, /* further ones count with those of no known place */
    LEAK_NAME = sizeof(((struct stook_cache *)0)->name),
};

struct leak_group {
    uint64_t objects, bytes; /* 0 objects: a free entry */
    uint64_t sample;         /* one of the objects */
    uint32_t tag,
        stack; /* where they were allocated: of site/tag.h, of debug/depot.h; 0: not known */
    enum heap_kind kind;
    const void *of;       /* the cache; NULL: large objects */
    char name[LEAK_NAME]; /* the cache's */
};

struct leak_found {
    bool alone;      /* all other threads were stopped */
    uint64_t unread; /* bytes of mappings that were not read */
    struct {
        uint64_t objects, bytes;
    } sum[HEAP_KINDS];
    uint32_t groups, most; /* in use, after leak_sort(); entries of the table */
    struct leak_group *group;
};

/* Lines for people, or one document of JSON.  `all`: what can be reached as well. */
void leak_show_text(struct writer *writer, const struct leak_found *found, bool all);
void leak_show_json(struct writer *writer, const struct leak_found *found, bool all);

/* Once, before the first cache: whether STOOK_LEAKS asks for a report, for which call sites are counted. */
bool leak_start(void);

#endif
