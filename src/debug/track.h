/* SPDX-License-Identifier: MIT */
/*
 * track.h - the element of LAYOUT_TRACK: the size that was requested, and the calls that allocated and freed the object.
 *
 *   struct track_head    Z or U: the size that was requested, and by which call
 *   struct track [2]     U: allocated, freed
 *
 * Only the thread that allocates or frees the object writes its element.  Other threads read it for reports.  They may
 * read a mixture of two writes, and each value of it is still safe to print.
 */
#ifndef STOOK_DEBUG_TRACK_H
#define STOOK_DEBUG_TRACK_H

#include "debug/flags.h"
#include "slab/column.h"

enum track_which { TRACK_ALLOC, TRACK_FREE, TRACKS };

struct track_head {
    uint32_t requested; /* bytes; 0: the cache's object size */
    uint32_t kind;      /* the state word of debug/object.h, which has the kind of call */
};

struct track {
    uint64_t time;   /* CLOCK_MONOTONIC_COARSE, ns; 0: it never happened */
    uint32_t stack;  /* of debug/depot.h; 0: none */
    uint32_t thread; /* the kernel's number */
    uint32_t cpu;
    uint32_t reserved;
};
_Static_assert(sizeof(struct track) == 24 && sizeof(struct track_head) == 8, "no holes");

/* Bytes of the element for a cache with these flags. */
static inline uint16_t track_bytes(uint32_t debug)
{
    return sizeof(struct track_head) + (debug & DEBUG_U ? TRACKS * sizeof(struct track) : 0);
}

/* NULL: the cache has none. */
static inline struct track_head *track_head(const struct stook_cache *cache,
                                            const struct slab *slab, uint32_t index)
{
    return column_at(cache, slab, LAYOUT_TRACK, index);
}

static inline struct track *track_at(const struct stook_cache *cache, const struct slab *slab,
                                     uint32_t index, enum track_which which)
{
    struct track_head *head = debug_of(cache) & DEBUG_U ? track_head(cache, slab, index) : NULL;

    return head ? (struct track *)(void *)(head + 1) + which : NULL;
}

/* Fills a track with this thread, CPU, time and stack.  The stack begins at the call `where` (base/where.h). */
void track_now(struct track *track, uint64_t where);

/* The same for an object's element; a no-op without U.  Any context, with no lock; errno is kept. */
void track_set(const struct stook_cache *cache, const struct slab *slab, uint32_t index,
               enum track_which which, uint64_t where);

/* False: it never happened, or the cache has no tracks. */
bool track_get(const struct stook_cache *cache, const struct slab *slab, uint32_t index,
               enum track_which which, struct track *to);

/* In a forked child: the thread has another number. */
void track_child(void);

#endif
