/* SPDX-License-Identifier: MIT */
/*
 * canary.h - the bytes between an object of a cache with a quarantine and the next one: a secret xor the object's
 * address.  They begin where what was asked for ends, and are at least CACHE_CANARY.  They are written when the
 * object is handed out, and checked when it is freed.  A freed object's place of them is filled (filling.h), or checked
 * once more when it leaves the quarantine.  So a write beyond an object's end is found, and one before the beginning of
 * the object behind.
 *
 * kmalloc's objects are aligned to their size and have those only that were not asked for: more would take twice the
 * room (cache_canary()).
 */
#ifndef STOOK_HARDEN_CANARY_H
#define STOOK_HARDEN_CANARY_H

#include "slab/slab.h"

#include <stdbool.h>
#include <stddef.h>

/* How far behind the object's start they end. */
static inline size_t canary_end(const struct stook_cache *cache)
{
    return cache->layout.room + cache_canary(cache->flags, cache->object_size);
}

/* Before the first cache. */
void canary_start(void);
/* A user has `used` bytes of the object from now on. */
void canary_set(const struct stook_cache *cache, void *object, size_t used);
/* False: the bytes behind them were overwritten, which is reported. */
bool canary_check(const struct stook_cache *cache, const void *object, size_t used);

#endif
