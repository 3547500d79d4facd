/* SPDX-License-Identifier: MIT */
/*
 * depot.h - call stacks, each kept once, by number.  Append-only and without locks, as the tables of site/tag.h: a
 * thread may stop in the middle of a step.  Memory comes from the OS by the MiB, 1 GiB at most: 5 million stacks
 * of full depth.
 */
#ifndef STOOK_DEBUG_DEPOT_H
#define STOOK_DEBUG_DEPOT_H

#include <stdatomic.h>
#include <stdint.h>

enum {
    DEPOT_DEPTH = 24,       /* frames of a stack that are kept, innermost first */
    DEPOT_CHUNK_SHIFT = 17, /* words: a MiB */
    DEPOT_CHUNKS = 1024,
};

/* A stack's number is the place of its record: words from the first chunk's start on. */
struct depot_record {
    uint32_t next; /* of the same bucket; 0: the last.  Constant once the record is in its list */
    uint32_t hash;
    uint64_t depth, frames[];
};
_Static_assert(sizeof(struct depot_record) == 2 * sizeof(uint64_t), "in words");

struct depot {
    _Atomic(_Atomic uint32_t *) bucket; /* the first number of each */
    _Atomic uint64_t used;              /* words that were given; the first one never is */
    _Atomic(uint64_t *) chunk[DEPOT_CHUNKS];
};
extern struct depot depot __attribute__((visibility("hidden")));

/* The number of a stack; 0: it has no frames, or there is no room. */
uint32_t depot_put(const uint64_t *frames, unsigned depth);

/* Its frames, and how many; 0 for a number that is none. */
unsigned depot_get(uint32_t number, uint64_t frames[DEPOT_DEPTH]);

/*
 * The stack of this thread from the call `where` on (base/where.h).  A call that names its site begins with that:
 * a frame with DEPOT_SITE, which no address of a program has.  Where unwinding is not possible, the call alone;
 * `where` 0: from the frames of the library's callers on.
 */
#define DEPOT_SITE ((uint64_t)1 << 63)
uint32_t depot_here(uint64_t where);

#endif
