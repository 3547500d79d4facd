/* SPDX-License-Identifier: MIT */
/*
 * filling.h - the bytes of a freed object of a cache with a quarantine, up to the next object: each is the same, and
 * one that is another was written to after the free.  Such an object stays filled until it is handed out again or its
 * slab goes, and is checked then.
 *
 * A constructed object keeps its contents, and memory that readers may read is not filled.
 */
#ifndef STOOK_HARDEN_FILLING_H
#define STOOK_HARDEN_FILLING_H

#include "base/finding.h"
#include "slab/slab.h"

#include <stdbool.h>

/* What a freed object is filled with where its cache does not ask for zeros: no pointer of eight of them is one. */
enum { FILLING_BYTE = 0x6d };

/* Whether the bytes of the cache's freed objects are the library's. */
static inline bool filling_has(const struct stook_cache *cache)
{
    return !cache->ctor && !cache->dtor && !(cache->flags & STOOK_CACHE_TYPESAFE);
}

/* An object that no user has. */
void filling_set(const struct stook_cache *cache, void *object);
/* False: bytes of it were changed.  That is reported, with what the caller does about it. */
bool filling_check(const struct stook_cache *cache, const void *object, enum debug_done done);

#endif
