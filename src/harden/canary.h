/* SPDX-License-Identifier: MIT */
/*
 * canary.h - a word behind each object of a cache with a quarantine: a secret xor the object's address.  It is written
 * when the object is handed out, and checked when it is freed and when it leaves the quarantine.  So a write beyond
 * an object's end is found, and one before the beginning of the object behind.
 *
 * cache_canary() of slab/cache.h says which caches have the room.
 */
#ifndef STOOK_HARDEN_CANARY_H
#define STOOK_HARDEN_CANARY_H

#include "slab/slab.h"

#include <stdbool.h>

/* Before the first cache. */
void canary_start(void);
/* A user gets the object. */
void canary_set(const struct stook_cache *cache, void *object);
/* False: it was overwritten, which is reported. */
bool canary_check(const struct stook_cache *cache, const void *object);

#endif
