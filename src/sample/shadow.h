/* SPDX-License-Identifier: MIT */
/*
 * shadow.h - where the objects of samples lie, for the profile.
 *
 * A sample of malloc or kmalloc gets an object of a shadow cache: sampled-16, sampled-32, ... sampled-32k.  A shadow
 * cache has no sheaves and is closed to all fast paths, so that each of its frees is seen: `free` finds it by the
 * load of the page map that it does anyway.  Beside each object lies what is known of the sample (a column of its
 * slab).  So what is in use is exact for samples.  Large objects have a table (large_samples.h).
 *
 * A typed cache has no shadow, since stook_free() has the cache as an argument and pushes any object to its sheaf.
 * Of such a cache only allocations are known.  A site's bytes in use follow from its share of them and from the
 * cache's own bytes in use.
 */
#ifndef STOOK_SAMPLE_SHADOW_H
#define STOOK_SAMPLE_SHADOW_H

#include "sample/sample.h"

#include <stddef.h>

enum { SHADOW_FIRST = 4, SHADOW_LAST = 15 }; /* objects of 1 << so much */

/* The element of an object of a shadow cache, which readers outside of the process know, too (view/view.def). */
enum { SHADOW_KEY = 0x5bd1e995 };
struct shadow {
    uint64_t
        key; /* the object's address xor SHADOW_KEY, while it is a sample: else the rest is nothing */
    uint64_t born; /* sites_age() then */
    uint32_t site; /* the record in the table of sites */
    float weight;
    uint32_t cache; /* the number of the one that it stands in for */
    uint32_t bytes; /* of an object of that */
};

/* What a call asked for. */
struct shadow_call {
    size_t size, align;
    uint64_t where; /* base/where.h, without bits of its own */
    uint32_t group; /* that the thread has entered, or 0 */
    bool zero;      /* it is to read as zeros */
};

/* An object in the place of one of the cache's; NULL: it cannot be had.  Outside the context. */
void *shadow_alloc(struct stook_cache *cache, const struct shadow_call *call, float weight);

/* Samples for the profile from now on, `mean` bytes apart; 0: no more of them. */
void shadow_begin(uint64_t mean);

/* An object of a cache whose frees are not seen, for which sample_is_due(its stride) was true. */
void shadow_typed(struct stook_cache *cache, uint64_t where, uint32_t group);
/* An object of such a cache: it counts. */
static inline void shadow_count(struct stook_cache *cache, uint64_t where, uint32_t group)
{
    if (sample_is_due(cache->layout.stride))
        shadow_typed(cache, where, group);
}
/* Usable bytes of an object of a shadow cache: those of the cache that it stands in for. */
size_t shadow_size(const struct stook_cache *cache, const void *object);

/* Objects of a shadow cache, some of the entries perhaps NULL, go to their slabs. */
void shadow_freed(const struct stook_cache *cache, void *const *objects, size_t n);

/*
 * By a cache's number: its objects that lie in shadow caches, and of a shadow cache the bytes of the objects that its own
 * stand in for.  Reports show them so, and a shadow cache as one of the library's own that has no object in use.
 */
extern _Atomic uint64_t shadow_use[STOOK_CACHES_MAX] __attribute__((visibility("hidden")));

/* A shadow cache by its number, from 0 to SHADOW_LAST - SHADOW_FIRST, or NULL. */
struct stook_cache *shadow_cache(unsigned number);

#endif
