/* SPDX-License-Identifier: MIT */
/*
 * pages_track.h - the calls that allocated and freed a large object, if STOOK_DEBUG gives U to all caches or to the name
 * "large".
 *
 * Large objects have no column, so a table by address holds their tracks.  It has places for some 16,000 objects in use.
 * A freed object keeps its place until another object needs it.  An object that finds no place has no track.
 */
#ifndef STOOK_DEBUG_PAGES_TRACK_H
#define STOOK_DEBUG_PAGES_TRACK_H

#include "debug/track.h"

#include <stdbool.h>

/* Whether they have tracks.  Written once, before the first object. */
extern bool pages_track_on __attribute__((visibility("hidden")));

/* When the debug flags are known, before the first object. */
void pages_track_start(void);

/* The slow halves of what follows. */
void pages_track_alloc(const void *object, size_t size, uint64_t where);
void pages_track_free(const void *object);

/* `where`: base/where.h.  Any context, with no lock; errno is kept. */
static inline void pages_track_came(const void *object, size_t size, uint64_t where)
{
    if (__builtin_expect(pages_track_on, 0) && object)
        pages_track_alloc(object, size, where);
}

/* Before it is freed; any pointer. */
static inline void pages_track_went(const void *object)
{
    if (__builtin_expect(pages_track_on, 0))
        pages_track_free(object);
}

/*
 * The tracks of the large object that the pointer lies in, or of the last one that was there.  A track's time is 0 if
 * that event never happened.  False: none is known.  The track of another thread's object may be torn, as in track.h.
 */
bool pages_track_get(const void *pointer, struct track tracks[TRACKS]);

#endif
