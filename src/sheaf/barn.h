/* SPDX-License-Identifier: MIT */
/*
 * barn.h - the full and the empty sheaves of one cache on one node (struct barn: slab/cache.h).
 *
 * "Full" means: holds objects.  The limit of full sheaves adapts.  While sheaves only arrive, it falls to 0, and
 * the barn's sheaves are flushed step by step, so a program that only frees ends with none here.  Each
 * miss raises the limit again, up to the cache's barn_limit.  A miss that follows a refusal raises it
 * further, up to 1 MiB, so that a workload that oscillates finds its sheaves cached.  A barn never takes a
 * sheaf that it has no budget for (budget.h).
 *
 * Each object in a sheaf holds its whole slab.  From a refusal until a thread asks for a sheaf again, the barn takes no sheaf
 * with sparse objects (sheaf_sift()), and with each that it refuses so two sheaves lose some of theirs.  So what stays after a burst
 * lies in slabs that are mostly out, in whatever order the objects were freed.
 *
 * All calls take the barn's lock once; with `nospin` they only try.
 *
 * A barn changes its own limit only.  If that is not enough, it leaves a verdict in its cache (enum
 * barn_verdict).  After every BARN_TICKS exchanges of a thread, a check of idle caches is due.  The policy
 * (cache/adapt.h) acts on both when the call is over, with no slot closed and no lock held.
 */
#ifndef STOOK_SHEAF_BARN_H
#define STOOK_SHEAF_BARN_H

#include "sheaf/sheaf.h"

void barn_init(struct barn *barn, unsigned full_limit);

/*
 * A full sheaf, or NULL.  If the node's barn has none, its home's is asked: sheaves of a memoryless node's objects come
 * there.  *empty (may be NULL) is taken in exchange and then set to NULL.  If its capacity is no longer the cache's, it
 * stays with the caller, and barn_put_empty() frees it.
 */
struct sheaf *barn_get_full(struct stook_cache *cache, unsigned node, struct sheaf **empty,
                            bool nospin);

/* sheaf_sift() of a sheaf, once the barn has refused one and more than a few slabs are at stake; else 0. */
uint32_t barn_sift(struct stook_cache *cache, unsigned node, struct sheaf *full);
/*
 * A step of a flush returned sparse objects to so many slabs.  If nearly each was of a slab of its own, slots hold many slabs
 * by what was freed last: a cache that has grown shrinks.
 */
void barn_scatters(struct stook_cache *cache, uint32_t sparse, unsigned slabs);
/*
 * Takes a full sheaf in, if it may.  False: it is refused, and still the caller's.  The barn refuses a sheaf that is
 * larger than new ones; if barn_refuses(), it does so without the lock.  *empty, when not NULL itself, gets an empty
 * sheaf or NULL.
 */
bool barn_put_full(struct stook_cache *cache, unsigned node, struct sheaf *full,
                   struct sheaf **empty, bool nospin);
/*
 * One step of a flush of the full sheaves that are beyond the limit, if there are any; else, if asked to `sift`, of the sparse
 * objects of others.  For each call that had a sheaf refused: so the barn follows its limit in small steps.
 */
void barn_shed(struct stook_cache *cache, unsigned node, bool sift, bool nospin);
/*
 * The rest of a sheaf that is flushed in steps: the first one, even beyond the limit, for barn_shed(); or the last one within
 * it.  Where there is no room, or no budget, it is flushed now.
 */
void barn_put_rest(struct stook_cache *cache, unsigned node, struct sheaf *rest, bool last,
                   bool nospin);
/*
 * Racy: it keeps no sheaves, and would refuse this one; an adaptive cache counts that.  So a cache whose sheaves are
 * small, and all go to slabs, does not take the lock for each.
 */
bool barn_refuses(struct stook_cache *cache, unsigned node, bool nospin);
/* An empty sheaf of the barn's, or a new one; NULL without memory. */
struct sheaf *barn_get_empty(struct stook_cache *cache, unsigned node, bool nospin);
/* Takes an empty sheaf in, or frees it when there are enough. */
void barn_put_empty(struct stook_cache *cache, unsigned node, struct sheaf *empty, bool nospin);

/* A sheaf that found no place in a slot, whatever it holds. */
void barn_return(struct stook_cache *cache, unsigned node, struct sheaf *sheaf, bool nospin);

/* One object, for threads that can use no slot; NULL when there is none. */
void *barn_take_object(struct stook_cache *cache, unsigned node, bool nospin);

/* After a change of limits or capacity: flushes full sheaves that are beyond or larger, and frees empty
 * ones of another capacity. */
void barn_fit(struct stook_cache *cache, unsigned node);

/* Flushes and frees everything. */
void barn_drain(struct stook_cache *cache, unsigned node);

/* Whether sheaves only arrive here, so that slots should keep none either.  Racy on purpose. */
static inline bool barn_declines(const struct stook_cache *cache, unsigned node)
{
    return __atomic_load_n(&cache->nodes[node].barn.full_limit, __ATOMIC_RELAXED) == 0;
}

/* As racy: whether any full sheaf would find room now. */
static inline bool barn_accepts(const struct stook_cache *cache, unsigned node)
{
    const struct barn *barn = &cache->nodes[node].barn;

    return __atomic_load_n(&barn->refused, __ATOMIC_RELAXED) == 0 &&
           __atomic_load_n(&barn->nr_full, __ATOMIC_RELAXED) <
               __atomic_load_n(&barn->full_limit, __ATOMIC_RELAXED);
}

#endif
