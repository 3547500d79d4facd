/* SPDX-License-Identifier: MIT */
/*
 * capacity.h - how large a cache's sheaves are, and its barns' limits with them; adaptive caches.
 *
 * A change is a store: sheaves that are made from then on have the new capacity.  Those of the old
 * one are worth what they hold; when they pass a barn empty they are freed instead of kept, so are
 * those that wait empty in barns.  After a change to less, the slots of all
 * CPUs are drained as for stook_cache_shrink(): by the call that changed it, or, where a cache falls in
 * the middle of a free, later by an allocation that may wait (cache/upkeep.h).
 *
 * An adaptive cache grows a level when its barns miss what they refused though their limit is as high
 * as it goes (barn.c): sheaves and barns double, within the budgets.  It falls back to level 0 when
 * its barns have come to refuse most, when it is shrunk, and when it idles, which it cannot know: so
 * caches that exchange sheaves look at those that have grown, one after the other.
 */
#ifndef STOOK_SHEAF_CAPACITY_H
#define STOOK_SHEAF_CAPACITY_H

#include "slab/cache.h"

#include <stdbool.h>

enum {
    CAPACITY_TICKS = 64, /* exchanges of a thread with barns from one look to the next */
    CAPACITY_LEVELS = 10,
    CAPACITY_BARN_MOST = 1 << 20,     /* bytes that a barn's limit grows to at level 0 */
    CAPACITY_SHEAF_BYTES = 256 << 10, /* objects of a grown sheaf are no more bytes than this */
};

/* Caches of which cache_has_grown() is true; while there are none no cache is looked at. */
extern _Atomic uint32_t capacity_grown __attribute__((visibility("hidden")));

/* A cache that is being made: its base capacity, limits and budget. */
void capacity_init(struct stook_cache *cache, unsigned base, size_t cached_max);

/* Bytes of full sheaves a barn may come to hold at the present level, the budgets permitting. */
size_t capacity_barn_bytes(const struct stook_cache *cache);

/* One level up, if the budgets let it; false: it stays.  No lock held. */
bool capacity_grow(struct stook_cache *cache, bool nospin);
/* Back to level 0, but for the sheaves that CPUs have: those are collected when it is due.  Asks the
 * kernel for nothing.  No lock held. */
void capacity_lower(struct stook_cache *cache);
/* Back to level 0; CPUs' sheaves are drained.  No lock held. */
void capacity_shrink(struct stook_cache *cache);
/* Another base.  No lock held; `capacity` is above 0. */
void capacity_set(struct stook_cache *cache, unsigned capacity);

/* Exchanges of sheaves that its barns have seen. */
uint64_t capacity_activity(struct stook_cache *cache);

/* An exchange of a cache with a barn: every so often a look at the caches that have grown is due. */
void capacity_tick(void);

#endif
