/* SPDX-License-Identifier: MIT */
/*
 * check.h - walks all structures of the library while no other thread uses it, and dies with a message at
 * the first inconsistency:
 *
 *   - every object of every slab is exactly one of: free, in a sheaf, or named by the caller (of
 *     the library's own caches: a sheaf of a slot or a barn, or a cache of the list), and its mark
 *     says out or free as it is;
 *   - state words, freelists, node lists and their counters agree, barns keep within limits;
 *   - every slot is open, every lock free, nothing was left behind;
 *   - blocks' bitmaps, counts and lists agree with each other, with the page map and with the
 *     arena's sums; every granule in use belongs to a slab or a large object.
 */
#ifndef TESTS_SUPPORT_CHECK_H
#define TESTS_SUPPORT_CHECK_H

#include "page/arena.h"
#include "slab/slab.h"

#include <stddef.h>
#include <stdint.h>

/* The decoded link, or SLAB_NONE at the end; a value outside the slab gets the library's report. */
static inline uint32_t check_next(const struct stook_cache *cache, const struct slab *slab,
                                  uint32_t index, uint32_t objects)
{
    return slab_encode(cache, index, *slab_link(cache, slab, index)) == SLAB_NONE
               ? SLAB_NONE
               : slab_follow(cache, slab, index, objects);
}

struct check_object {
    struct stook_cache *cache;
    void *object;
};

/* `held`: the objects that the test holds. */
void check_all(const struct check_object *held, size_t n);

/* The same, and how many objects of `cache` lie in sheaves, and how many slabs it has. */
struct check_counts {
    uint64_t cached, slabs, free;
};
void check_count(const struct stook_cache *cache, const struct check_object *held, size_t n,
                 struct check_counts *counts);

/* Runs and their descriptors, as slabs have them: 2^order pages aligned to their size. */
static inline void *arena_alloc_slab(unsigned zone, unsigned order, bool dense, size_t meta_bytes,
                                     void **meta)
{
    struct arena_ask ask = {
        .pages = 1u << order, .align = 1u << order, .dense = dense, .meta_bytes = meta_bytes};

    return arena_alloc(zone, &ask, NULL, meta);
}

static inline void arena_free_slab(void *slab, unsigned order, void *meta, size_t meta_bytes)
{
    arena_free(slab, (size_t)1 << order, meta, meta_bytes);
}

#endif
