/* SPDX-License-Identifier: MIT */
/* The cases: what each runs, with which defaults, and which record it makes. */
#ifndef STOOK_BENCH_PLAN_H
#define STOOK_BENCH_PLAN_H

#include <stddef.h>

#define PLAN_VALUES_MAX 16

/* The groups that allocators declare to take part in (roster.c). */
enum plan_group {
    GROUP_LOOP = 1,
    GROUP_HANDOFF = 2,
    GROUP_IDLE = 4,
    GROUP_MEMORY = 8,
    GROUP_SLAB_BULK = 16,
    GROUP_SLUB_BULK = 32,
    GROUP_KMALLOC = 64,
    GROUP_HANDOFF_BURST = 128,
    GROUP_HANDOFF_POOL = 256,
    GROUP_HANDOFF_RCU = 512,
    GROUP_ACCOUNTED = 1024,
    GROUP_COLUMNS = 2048,
    GROUP_LATENCY = 4096,
};

/* Those from slab_bulk on have the keys of RECORD_TIME and the mode, and what else variant.c varies. */
enum plan_record {
    RECORD_TIME,
    RECORD_IDLE,
    RECORD_MEMORY,
    RECORD_LATENCY,
    RECORD_SLAB_BULK,
    RECORD_SLUB_BULK,
    RECORD_KMALLOC,
    RECORD_HANDOFF_BURST,
    RECORD_HANDOFF_POOL,
    RECORD_HANDOFF_RCU,
    RECORD_ACCOUNTED,
    RECORD_COLUMNS,
};

struct plan_case {
    const char *name;   /* what the worker is asked for, and the record's "case" */
    const char *family; /* the name it is also run under: stook-bench memory */
    const char *what;   /* one line for people */
    enum plan_group group;
    enum plan_record record;
    unsigned repeats;
    /* Defaults of what the options of the same names set; zero where the case has no use for it. */
    size_t object_size[PLAN_VALUES_MAX]; /* up to the first zero */
    size_t n[PLAN_VALUES_MAX];           /* the same */
    int paired;                          /* n[i] belongs to object_size[i], and to no other */
    size_t align[PLAN_VALUES_MAX];       /* the same; of the objects, all in one table */
    size_t threads;
    size_t mib;
    unsigned rounds;
    unsigned ms;
};

extern const struct plan_case plan_cases[];
extern const size_t plan_case_count;

#endif
