/* SPDX-License-Identifier: MIT */
/*
 * zone.h - the bytes around an object of a debug cache, and those of a free one.
 *
 *   | lead ... left | object | right ........ left | object | right ... | padding
 *                     <- stride ----------------->
 *
 *   left zone    the bytes before an object: the last ones of the slab's lead, or of the stride before
 *   right zone   from what was asked for to the next object's left zone
 *   poison       what a free object is filled with
 *   padding      what no object uses, at both ends of the slab
 *
 * A cache has zones with Z, poison and padding with P.  The values are the kernel's.
 */
#ifndef STOOK_DEBUG_ZONE_H
#define STOOK_DEBUG_ZONE_H

#include "debug/flags.h"
#include "slab/slab.h"

enum {
    ZONE_FREE = 0xbb,
    ZONE_LIVE = 0xcc,
    POISON_FRESH = 0x5a, /* of an object that is handed out, and of padding */
    POISON_FREE = 0x6b,
    POISON_END = 0xa5, /* the last byte of a free object */
    ZONE_GAP = 16,     /* bytes at least between two objects … */
    ZONE_LEFT = 8,     /* … of which the left zone has so many at least … */
    ZONE_LEFT_MAX = 64 /* … and these at most */
};

/* Of a gap of so many bytes between objects. */
static inline uint32_t zone_left_of(uint32_t gap)
{
    uint32_t left = gap / 2 & ~(uint32_t)(ZONE_LEFT - 1);

    return left < ZONE_LEFT_MAX ? left : ZONE_LEFT_MAX;
}

/* Bytes of the left zone; 0: the cache has none. */
static inline uint32_t zone_left(const struct stook_cache *cache)
{
    return debug_of(cache) & DEBUG_Z
               ? zone_left_of(cache->layout.stride - (uint32_t)cache->object_size)
               : 0;
}

/* How far behind the object's start the right zone ends. */
static inline uint32_t zone_end(const struct stook_cache *cache)
{
    return cache->layout.stride - zone_left(cache);
}

/* Whether free objects are filled: not if they must keep what a constructor wrote, or what readers read. */
static inline bool zone_poisons(const struct stook_cache *cache)
{
    return (debug_of(cache) & DEBUG_P) && !cache->ctor && !cache->dtor &&
           !(cache->flags & STOOK_CACHE_TYPESAFE);
}

/* Bytes from `from` on that are not `expected`: where the first is, and how many to the last one, both
 * included; 0: there are none. */
struct zone_change {
    uint8_t *at;
    size_t bytes;
    uint8_t expected;
};
bool zone_differs(uint8_t *from, size_t n, uint8_t expected, struct zone_change *change);
/* The same of a free object of so many bytes. */
bool zone_poison_differs(uint8_t *object, size_t n, struct zone_change *change);
void zone_poison(uint8_t *object, size_t n);

#endif
