/* SPDX-License-Identifier: MIT */
/*
 * sampled.h - the door of malloc and kmalloc at which their allocations are counted for samples (sample/sample.h).
 *
 * Where nothing is sampled, the door is shut, and no call comes by here.  Where something is, no class has an entry in
 * the tables of the fast paths (malloc/fast.h, kmalloc.c): so each allocation takes the slow path, counts down, and
 * goes on from there by one section.  Frees stay fast.  A sample lies in a shadow cache or between pages without access,
 * where `free` finds it by what it looks up anyway.
 */
#ifndef STOOK_KMALLOC_SAMPLED_H
#define STOOK_KMALLOC_SAMPLED_H

#include "percpu/percpu.h"
#include "charge/group.h"
#include "sample/shadow.h"

#include <stook/inline.h>

/* Opens the door, and closes what it leads past: kmalloc's and malloc's fast paths, typed caches.  After sample_begin(). */
void sampled_open(void);

/* `size` bytes that are a sample; NULL: they are to be had in the ordinary way.  errno is kept. */
void *sampled_take(struct stook_cache *cache, size_t size, size_t align, uint64_t where, bool zero);

/*
 * Of a cache of malloc's or kmalloc's whose objects are known by nothing else (cache_hooks()): a sample, or an object of
 * this CPU's main sheaf, if that has one and `plain`.  NULL: the caller takes one.
 */
static inline void *sampled_alloc(struct stook_cache *cache, size_t size, size_t align,
                                  uint64_t where, bool zero, bool plain)
{
    void *object = NULL;

    if (cache_hooks(cache) ||
        (sample_is_due(size + 1) && (object = sampled_take(cache, size, align, where, zero))))
        return object;
    return plain && stook_rseq_pop(cache->head.slots, cache->head.rseq_offset, &object) ? object
                                                                                        : NULL;
}

/* An object of such a cache that is charged, or stays apart from others: it counts, and lies where it lies. */
static inline void sampled_count(struct stook_cache *cache, uint64_t where)
{
    if (sample_is_on() && !(cache_hooks(cache) & CACHE_CLOSED_COUNTED)) /* which counts it itself */
        shadow_count(cache, where, group_current());
}

#endif
