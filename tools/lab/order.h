/* SPDX-License-Identifier: MIT */
/*
 * order.h - order files: which CPU made which call on one cache, in the order of the calls
 * (docs/lab.md).  The lab writes the order that it played, and replays an order that it or a kernel wrote.
 */
#ifndef STOOK_LAB_ORDER_H
#define STOOK_LAB_ORDER_H

#include "lab/lab.h"

enum { ORDER_ALLOC, ORDER_FREE };
/*
 * Flags of an allocation.  NOWAIT: it is made without waiting first, as a pool does, and with waiting only if that failed.
 * FAILED: no record frees its object.
 */
enum { ORDER_NOWAIT = 1, ORDER_FAILED = 2 };

/* As in the file, little endian.  The records follow the header in the order of the calls, up to the end of the file. */
struct order_header {
    char magic[8]; /* "STKORDER" */
    /* Version 1.  Each record's CPU is below `cpus`, its object below `objects`. */
    uint32_t version, cpus, object_size, objects;
    uint64_t records;
};
struct order_record {
    uint32_t object; /* unique while it is allocated; the number may be used again afterwards */
    uint16_t cpu;    /* that makes the call */
    uint8_t op, flags;
};
_Static_assert(sizeof(struct order_header) == 32 && sizeof(struct order_record) == 8,
               "the file has no padding");

/* ---- writing: order_write.c ------------------------------------------------------------------- */

/* Records what lab_alloc() and lab_free() do from now on; a status. */
int order_begin(struct lab *lab, const char *file);
void order_note_alloc(struct lab_actor *actor, const void *object);
void order_note_free(struct lab_actor *actor, const void *object);
/* The header, and the file is complete; a status.  Without a recording it does nothing. */
int order_end(struct lab *lab);

/* ---- reading: order_read.c -------------------------------------------------------------------- */

/* An order whose every record was checked against those before it. */
struct order {
    struct order_header header;
    struct order_record *record;
    uint64_t allocs, frees, failed; /* records of each kind; `failed` are not among the allocs */
    unsigned last_cpu;              /* the highest that makes a call */
};

/* A status after complain(). */
int order_read(struct order *order, const char *file);
void order_close(struct order *order);

/* ---- replaying: order_play.c, order_show.c ---------------------------------------------------- */

struct order_result {
    uint64_t left; /* objects that were out behind the last record */
    struct lab_counts
        *before; /* by CPU: behind the last record, and after what was left was freed */
    struct lab_counts *after;
    uint64_t slabs_before, slabs_after; /* that there were */
};

/* In the lab that is made ready, whose design has started; a status. */
int order_play(struct lab *lab, const struct order *order, struct order_result *result);
/* What was counted, to standard output; a status. */
int order_show(const struct lab *lab, const struct order *order, const struct order_result *result,
               const char *file);

#endif
