/* SPDX-License-Identifier: MIT */
/*
 * link_first.h - how a new slab was consumed before an iterator emitted its objects: the whole
 * freelist is built in the objects, then drained.  For comparison only, by stook-bench and tests
 * (CACHE_LINK_FIRST): with plain pointers, as fast as that can be; what is not drained
 * gets the links that everybody reads.
 */
#ifndef STOOK_SLAB_LINK_FIRST_H
#define STOOK_SLAB_LINK_FIRST_H

#include "slab/freelist_iter.h"

/* Up to max objects into the array; how many.  The rest of the slab is linked from *head on. */
static inline uint32_t link_first_drain(const struct stook_cache *cache, struct slab *slab,
                                        void **objects, uint32_t max, uint32_t *head,
                                        uint32_t *rest)
{
    struct freelist_iter iter = freelist_iter_begin(cache, slab);
    size_t stride = cache->layout.stride;
    char *base = slab_first(cache, slab), *object = base, *last = base;
    uint32_t got = 0, before = SLAB_NONE;

    if (!iter.permutation) {
        for (uint32_t i = 1; i < iter.objects; i++, last += stride)
            *(void **)(void *)last = last + stride;
    } else {
        object = last = base + freelist_iter_next(&iter) * stride;
        while (iter.left > 0) {
            char *next = base + freelist_iter_next(&iter) * stride;
            *(void **)(void *)last = next;
            last = next;
        }
    }
    *(void **)(void *)last = NULL;
    for (; got < max && object; object = *(void **)(void *)object) {
        objects[got++] = object;
        mark_out(cache, slab, layout_index(&cache->layout, (uint32_t)(object - base)));
    }
    *head = SLAB_NONE;
    *rest = 0;
    for (char *next; object; object = next, ++*rest) {
        uint32_t index = layout_index(&cache->layout, (uint32_t)(object - base));
        next = *(void **)(void *)object;
        if (before == SLAB_NONE)
            *head = index;
        else
            slab_set_link(cache, slab, before, index);
        slab_set_link(cache, slab, index, SLAB_NONE);
        mark_free(cache, slab, index);
        before = index;
    }
    slab_counts.links += iter.objects;
    return got;
}

#endif
