/* SPDX-License-Identifier: MIT */
/*
 * filling.h - fills the bytes of a freed object of a cache with a quarantine, up to the next object, with one value.  A
 * byte of another value was written after the free.  The object stays filled until it is allocated again or its slab is
 * freed, and is checked then.
 *
 * Objects with a constructor keep their contents, and memory that readers may read is not filled.
 */
#ifndef STOOK_HARDEN_FILLING_H
#define STOOK_HARDEN_FILLING_H

#include "base/finding.h"
#include "slab/slab.h"

#include <stdbool.h>

/* The value, unless the cache asks for zeros.  Eight such bytes are no valid pointer. */
enum { FILLING_BYTE = 0x6d };

/* Whether the cache's freed objects are filled. */
static inline bool filling_has(const struct stook_cache *cache)
{
    return !cache->ctor && !cache->dtor && !(cache->flags & STOOK_CACHE_TYPESAFE);
}

/* Fills an object that is not in use. */
void filling_set(const struct stook_cache *cache, void *object);
/* False: bytes of it were changed.  That is reported with `done`, which says what the caller does about it. */
bool filling_check(const struct stook_cache *cache, const void *object, enum debug_done done);

#endif
