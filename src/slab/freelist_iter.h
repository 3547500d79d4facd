/* SPDX-License-Identifier: MIT */
/*
 * freelist_iter.h - one walk over the free objects of a slab, with two users: emitting objects
 * into an array, and linking what remains.  A slab that is emitted whole is never written to.
 */
#ifndef STOOK_SLAB_FREELIST_ITER_H
#define STOOK_SLAB_FREELIST_ITER_H

#include "slab/slab.h"

struct freelist_iter {
    uint32_t next, end; /* indices still to come: [next, end) */
};

/* Over all objects of a slab that is on no list and that nobody else sees. */
static inline struct freelist_iter freelist_iter_begin(const struct stook_cache *cache,
                                                       const struct slab *slab)
{
    uint64_t word = atomic_load_explicit(&slab->state, memory_order_relaxed);

    return (struct freelist_iter){0, slab_objects(cache, word)};
}

/* Up to n objects into the array; how many. */
static inline uint32_t freelist_iter_emit(struct freelist_iter *iter,
                                          const struct stook_cache *cache, const struct slab *slab,
                                          void **objects, uint32_t n)
{
    uint32_t left = iter->end - iter->next, stride = cache->layout.stride;
    char *object = slab_base(slab) + (size_t)iter->next * stride;

    if (n > left)
        n = left;
    for (uint32_t i = 0; i < n; i++, object += stride)
        objects[i] = object;
    iter->next += n;
    return n;
}

/* Links the rest; the first index of the list, SLAB_NONE when there is none. */
static inline uint32_t freelist_iter_link(struct freelist_iter *iter,
                                          const struct stook_cache *cache, struct slab *slab)
{
    uint32_t head = iter->next < iter->end ? iter->next : SLAB_NONE;

    for (; iter->next < iter->end; iter->next++)
        slab_set_link(cache, slab, iter->next,
                      iter->next + 1 < iter->end ? iter->next + 1 : SLAB_NONE);
    return head;
}

#endif
