/* SPDX-License-Identifier: MIT */
/*
 * debug.h - reports of corruption, and the calls that allocated and freed an object: docs/debug.md.
 */
#ifndef STOOK_DEBUG_H
#define STOOK_DEBUG_H

#include <stook/stook.h>

STOOK_C_BEGIN

/*
 * Switch debug flags of a cache that is in use.
 *
 * These are STOOK_CACHE_DEBUG_TRACE and STOOK_CACHE_DEBUG_FAIL, which change nothing of its layout.  `on` is 0 or 1.
 * The cache has had debug flags since its creation, any of them.
 *
 * returns: 0, or -1
 * errors:  EINVAL      another flag
 *          EOPNOTSUPP  the cache was created without debug flags: its calls are not checked
 * context: any
 * locks:   none
 */
STOOK_API int stook_cache_debug_set(struct stook_cache *cache, unsigned flags, int on)
    STOOK_NONNULL(1);

/* The call that allocated or freed an object. */
struct stook_object_track {
    size_t size;
    size_t requested;   /* the requested size if it is known; else the object's size */
    uint64_t age;       /* nanoseconds since then */
    uint64_t stack[24]; /* return addresses, innermost first */
    unsigned depth;     /* how many */
    int thread;         /* the kernel's number of the thread */
    int cpu;
};

/* Which of the two: the last allocation, or the last free. */
#define STOOK_TRACK_ALLOC 0
#define STOOK_TRACK_FREE 1

/*
 * Say which call allocated or freed an object last.
 *
 * Its cache has STOOK_CACHE_DEBUG_USER.  The object may be free, and the pointer may point to any byte of it.  If another
 * thread allocates or frees the object at the same time, the result may be a mixture.
 *
 * returns: 0, or -1 and *track is not changed
 * errors:  EINVAL   track->size is not a sizeof, or `which` is none of the two
 *          ENOENT   no object of a cache with STOOK_CACHE_DEBUG_USER, or it never was
 * context: any
 * locks:   none
 */
STOOK_API int stook_object_track(const void *object, int which, struct stook_object_track *track)
    STOOK_NONNULL(3);

STOOK_C_END

#endif /* STOOK_DEBUG_H */
