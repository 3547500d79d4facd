/* SPDX-License-Identifier: MIT */
/*
 * How a case takes and returns objects, in words both sides know: the driver writes "mode=bulk"
 * among a worker's arguments and the same word into its record. The first of each list is for cases
 * that have no such choice.
 */
#ifndef STOOK_BENCH_MODES_H
#define STOOK_BENCH_MODES_H

#include <string.h>

enum mode {
    MODE_NONE,
    MODE_SINGLE, /* one call an object */
    MODE_BULK,   /* one call a batch */
    MODE_EMIT,   /* bulk calls; new slabs are emitted, nothing is linked beforehand */
    MODE_LINK_FIRST, /* the floor of the above: the whole freelist of a new slab is built, then drained */
    MODE_LINK_INSIDE, /* bulk calls; as emit, links of freed objects lie in the objects */
    MODE_POOL,        /* single calls of a pool with a reserve */
    MODE_MEMB,        /* frees deferred by liburcu-memb's grace periods */
    MODE_QSBR,        /* … by liburcu-qsbr's */
    MODE_OFF,         /* nothing is kept about objects */
    MODE_GROUP,       /* the group that each is charged to */
    MODE_TAG,         /* the call site that each was allocated at */
    MODE_BOTH,
    MODE_TOUCHED,   /* a byte of each page of an object is written */
    MODE_UNTOUCHED, /* none is */
    MODE_COUNT
};

enum order { ORDER_NONE, ORDER_SEQUENTIAL, ORDER_RANDOM, ORDER_COUNT };

enum free_order { FREE_ORDER_NONE, FREE_ORDER_ORDERED, FREE_ORDER_SHUFFLED, FREE_ORDER_COUNT };

static const char *const mode_names[] = {
    "",     "single", "bulk",  "emit", "link-first", "link-inside", "pool",     "memb",
    "qsbr", "off",    "group", "tag",  "both",       "touched",     "untouched"};
static const char *const order_names[] = {"", "sequential", "random"};
static const char *const free_order_names[] = {"", "ordered", "shuffled"};

/* The word's place in one of the lists above, or -1. */
static inline int modes_find(const char *const *names, int count, const char *word)
{
    for (int i = 0; i < count; i++)
        if (!strcmp(names[i], word))
            return i;
    return -1;
}

#endif
