/* SPDX-License-Identifier: MIT */
/*
 * zone.h - the bytes around an object of a debug cache, and those of a free one.
 *
 *   | lead ... left | object | right ........ left | object | right ...
 *                     <- stride ----------------->
 *
 *   left zone    the bytes before an object: the end of the slab's lead, or of the previous stride
 *   right zone   from the end of the requested size to the next object's left zone
 *   poison       the bytes of a free object
 *
 * A cache has zones with Z, poison with P.  The values are the kernel's.
 */
#ifndef STOOK_DEBUG_ZONE_H
#define STOOK_DEBUG_ZONE_H

#include "debug/flags.h"
#include "slab/slab.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    ZONE_FREE = 0xbb,
    ZONE_LIVE = 0xcc,
    POISON_FRESH = 0x5a, /* of an object that is allocated */
    POISON_FREE = 0x6b,
    ZONE_GAP = 16,     /* bytes at least between two objects … */
    ZONE_LEFT = 8,     /* … of which the left zone has so many at least … */
    ZONE_LEFT_MAX = 64 /* … and these at most */
};

/* Bytes of the left zone in a gap of so many bytes between objects. */
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

/* The distance from the object's start to the end of its right zone. */
static inline uint32_t zone_end(const struct stook_cache *cache)
{
    return cache->layout.stride - zone_left(cache);
}

/* Whether free objects are poisoned.  Those with a constructor keep its contents, and readers may read type-stable ones. */
static inline bool zone_poisons(const struct stook_cache *cache)
{
    return (debug_of(cache) & DEBUG_P) && !cache->ctor && !cache->dtor &&
           !(cache->flags & STOOK_CACHE_TYPESAFE);
}

/*
 * Bytes that only the library writes are eight bytes over and over, in all of its checks: byte i of `word` is at the
 * addresses that are i modulo 8.  ZONE_WORD: all eight are the same.
 */
#define ZONE_WORD(byte) ((byte) * (uint64_t)0x0101010101010101)

/* The changed bytes of a range: the first one and what it should be, and the number from there to the last one. */
struct zone_change {
    uint8_t *at;
    size_t bytes;
    uint8_t expected;
};
bool zone_differs(const void *from, size_t n, uint64_t word, struct zone_change *change);
void zone_fill(void *from, size_t n, uint64_t word);

#endif
