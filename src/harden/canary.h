/* SPDX-License-Identifier: MIT */
/*
 * canary.h - bytes that the library writes to objects of a cache with a quarantine, and checks: a canary behind a live one,
 * and filling in a freed one.
 *
 * A canary is a secret xor the object's address.  It reaches from the end of the requested size to the next object, and has CACHE_CANARY bytes at least.  The library
 * writes it when the object is allocated and checks it when the object is freed.  If freed objects are not filled
 * (below), it checks the canary again when the object leaves the quarantine.  So it finds a write beyond an object's
 * end, and one before the start of the next object.
 *
 * Objects of kmalloc are aligned to their size.  Their canary is only the part of the size class that was not requested,
 * since CACHE_CANARY bytes more would double their room (cache_canary()).
 *
 * Filling is one value in all bytes of a freed object, up to the next object.  A byte of another value was written after
 * the free.  The object stays filled until it is allocated again or its slab is freed, and is checked then.  Objects with
 * a constructor keep their contents, and memory that readers may read is not filled.
 */
#ifndef STOOK_HARDEN_CANARY_H
#define STOOK_HARDEN_CANARY_H

#include "base/finding.h"
#include "slab/slab.h"

#include <stdbool.h>
#include <stddef.h>

/* The filling, unless the cache asks for zeros.  Eight such bytes are no valid pointer. */
enum { CANARY_FILLING = 0x6d };

/* Before the first cache. */
void canary_start(void);
/* Writes the canary of an object whose user requested `used` bytes. */
void canary_set(const struct stook_cache *cache, void *object, size_t used);
/* False: the canary was overwritten, and this was reported. */
bool canary_check(const struct stook_cache *cache, const void *object, size_t used);

/* Whether the cache's freed objects are filled. */
static inline bool canary_fills(const struct stook_cache *cache)
{
    return !cache->ctor && !cache->dtor && !(cache->flags & STOOK_CACHE_TYPESAFE);
}
/* Fills an object that is not in use. */
void canary_fill(const struct stook_cache *cache, void *object);
/* False: bytes of it were changed.  That is reported with `done`, which says what the caller does about it. */
bool canary_check_filling(const struct stook_cache *cache, const void *object,
                          enum debug_done done);

#endif
