/* SPDX-License-Identifier: MIT */
/*
 * canary.h - a canary behind each object of a cache with a quarantine: a secret xor the object's address.
 *
 * It reaches from the end of the requested size to the next object, and has CACHE_CANARY bytes at least.  The library
 * writes it when the object is allocated and checks it when the object is freed.  If freed objects are not filled
 * (filling.h), it checks the canary again when the object leaves the quarantine.  So it finds a write beyond an object's
 * end, and one before the start of the next object.
 *
 * Objects of kmalloc are aligned to their size.  Their canary is only the part of the size class that was not requested,
 * since CACHE_CANARY bytes more would double their room (cache_canary()).
 */
#ifndef STOOK_HARDEN_CANARY_H
#define STOOK_HARDEN_CANARY_H

#include "slab/slab.h"

#include <stdbool.h>
#include <stddef.h>

/* The distance from the object's start to the end of its canary. */
static inline size_t canary_end(const struct stook_cache *cache)
{
    return cache->layout.room + cache_canary(cache->flags, cache->object_size);
}

/* Before the first cache. */
void canary_start(void);
/* Writes the canary of an object whose user requested `used` bytes. */
void canary_set(const struct stook_cache *cache, void *object, size_t used);
/* False: the canary was overwritten, and this was reported. */
bool canary_check(const struct stook_cache *cache, const void *object, size_t used);

#endif
