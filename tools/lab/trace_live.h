/* SPDX-License-Identifier: MIT */
/*
 * trace_live.h - which objects of a trace are out, by their recorded address: an open hash table that
 * grows with the most that ever are.
 */
#ifndef STOOK_LAB_TRACE_LIVE_H
#define STOOK_LAB_TRACE_LIVE_H

#include <stdbool.h>
#include <stdint.h>

struct trace_object {
    uint64_t address; /* 0: no object */
    union {
        void *object;   /* of a class: where it is in the replay */
        uint64_t bytes; /* of a large one */
    };
    int class;       /* or TRACE_LARGE */
    unsigned thread; /* that allocated it */
};

struct trace_live {
    struct trace_object *slot;
    uint64_t mask, used;
};

void trace_live_start(struct trace_live *live);
void trace_live_end(struct trace_live *live);
/* Takes the object of that address out of the table; false: there is none. */
bool trace_live_take(struct trace_live *live, uint64_t address, struct trace_object *object);
/* One of an address that is not in it. */
void trace_live_put(struct trace_live *live, const struct trace_object *object);

#endif
