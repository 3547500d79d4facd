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

/* What makes the table none that malloc could have; NULL: nothing. */
const char *traces_table_wrong(const struct traces_table *table);
/* Once, before the first play.  False after complain(). */
bool traces_start(void);
/* Orders and capacities of a whole table, where they are TRACES_AUTO; false after complain(): a slab holds no object. */
bool traces_resolve_all(struct traces_table *table);
/*
 * Plays the objects above `above` bytes and up to the class's size.  `detail` has TRACES_PARTS elements.
 */
void traces_play(const struct traces_trace *trace, unsigned above, const struct traces_class *class,
                 struct traces_cost *cost, struct traces_bytes *detail);

/* What the table costs in each of the traces. */
void traces_show(const struct traces_trace *trace, unsigned traces,
                 const struct traces_table *table, bool json);

#endif
