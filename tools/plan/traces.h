/* SPDX-License-Identifier: MIT */
/*
 * traces.h - stook plan --traces: recorded allocations of programs played by the library itself under any table
 * of malloc's size classes, and what that cost in bytes and in work.
 *
 * A class is played by itself, in a cache of its own: no class's slabs and sheaves depend on another's.  So a
 * table's cost is the sum of its classes', and one that differs in a class needs that class played alone.
 */
#ifndef STOOK_TOOL_TRACES_H
#define STOOK_TOOL_TRACES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    TRACES_PARTS = 128,   /* of a trace: what it has in memory is known for each */
    TRACES_CLASSES = 255, /* of a table at most */
    TRACES_STEP = 16,     /* all classes are multiples */
    TRACES_MAX = 32768,   /* the last class; what is larger has whole pages in any table */
    TRACES_STEPS = TRACES_MAX / TRACES_STEP + 1,
    TRACES_CPUS = 8, /* threads have them round and round */
    TRACES_AUTO = -1,
};

struct traces_class {
    unsigned size;
    int order, capacity; /* of slabs, of sheaves; TRACES_AUTO: as the library has it */
};

struct traces_table {
    unsigned classes;
    struct traces_class class[TRACES_CLASSES];
};

struct traces_event {
    uint32_t object; /* a number that no other object has meanwhile */
    uint16_t size;   /* that was asked for, rounded up to its alignment; TRACES_MAX at most */
    uint8_t cpu;
    bool free;
};

struct traces_trace {
    const char *file;
    char program[64];
    struct traces_event *event;
    uint32_t events, objects;
    uint32_t *by_step; /* events in the order of their sizes, then of time */
    uint32_t
        begin[TRACES_STEPS + 1]; /* where there each step's are: sizes up to TRACES_STEP times it */
    uint64_t allocs, large; /* that are played; that are not, for they have pages of their own */
    uint64_t classed;       /* of allocs: the trace tells their class, not what was asked for */
};

/* Of one class in a trace, or of all of them. */
struct traces_cost {
    uint64_t made, gone;          /* slabs */
    uint64_t through;             /* objects that went to slabs or came from there */
    uint64_t bytes[TRACES_PARTS]; /* at most in each part */
    uint64_t requested
        [TRACES_PARTS]; /* of these: what the program has asked for; at most, where several times had them */
};

/* What these bytes are, where a part has the most. */
struct traces_bytes {
    uint64_t requested, rounding;
    uint64_t free;    /* in pages that the program has touched; the rest of them */
    uint64_t meta;    /* descriptors with links, sheaves, the class itself */
    uint64_t sheaves; /* of free objects in sheaves, of touched pages or not */
};

/* False after complain(). */
bool traces_read(struct traces_trace *trace, const char *file);
void traces_free(struct traces_trace *trace);

/* The library's own table. */
void traces_builtin(struct traces_table *table);
/* SIZE[:ORDER[:CAPACITY]] between commas, or a file with such words; false after complain(). */
bool traces_table_read(struct traces_table *table, const char *text);
/* What makes the table one that malloc could have; NULL, or why not. */
const char *traces_table_wrong(const struct traces_table *table);

/* Once, before the first play.  False after complain(). */
bool traces_start(void);
/* Order and capacity where they are TRACES_AUTO; false: a slab of that order holds none. */
bool traces_resolve(struct traces_class *class);
/* Of a whole table; false after complain(). */
bool traces_resolve_all(struct traces_table *table);
/*
 * Plays the objects above `above` bytes and up to the class's size; `detail` has TRACES_PARTS of them, or is NULL.
 * False: it has none in this trace.
 */
bool traces_play(const struct traces_trace *trace, unsigned above, const struct traces_class *class,
                 struct traces_cost *cost, struct traces_bytes *detail);

/* traces_search.c */
struct traces_plan {
    struct traces_trace *trace;
    unsigned traces, judged; /* the last `judged` ones are not searched on */
    double object,
        slab; /* bytes that an object through slabs, a slab made or unmade is weighed as */
    bool search, json;
};

struct traces_sum {
    struct traces_cost cost;
    uint64_t peak; /* bytes */
    unsigned part; /* where */
    double weighed;
};

/* The table's cost in a trace. */
void traces_sum(const struct traces_plan *plan, unsigned trace, const struct traces_table *table,
                struct traces_sum *sum);
/* What one change brought. */
struct traces_change {
    char what[80];
    double gain,
        judged; /* in parts of the cost before all of them: of the traces searched, of the others */
};
enum { TRACES_CHANGES = 1000 };
/* Changes the table as long as that helps. */
void traces_search(const struct traces_plan *plan, struct traces_table *table,
                   struct traces_change *change, unsigned *changes);
/* The mean of costs over those of the table to begin with, of traces first to end - 1. */
double traces_mean(const struct traces_sum *now, const struct traces_sum *before, unsigned first,
                   unsigned end);

/* traces_show.c */
void traces_run(const struct traces_plan *plan, struct traces_table *table);

#endif
