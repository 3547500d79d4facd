/* SPDX-License-Identifier: MIT */
/*
 * arena_slab.h - runs and their descriptors, as slabs have them: 2^order pages aligned to their size.
 */
#ifndef STOOK_TESTS_ARENA_SLAB_H
#define STOOK_TESTS_ARENA_SLAB_H

#include "page/arena.h"

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
