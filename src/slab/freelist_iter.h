/* SPDX-License-Identifier: MIT */
/*
 * freelist_iter.h - one walk over the free objects of a slab, with two users: emitting objects
 * into an array, and linking what remains.  Of a slab that is emitted whole only marks are written,
 * which lie outside it.
 *
 * The walk goes through the cache's positions from a start, once around.  In order, position is
 * index and the start is 0.  In random order the cache's permutation says which index a position
 * has, and the start is random.  A slab of the minimum order has fewer objects than positions:
 * indices beyond it are passed over.
 */
#ifndef STOOK_SLAB_FREELIST_ITER_H
#define STOOK_SLAB_FREELIST_ITER_H

#include "percpu/random.h"
#include "slab/mark.h"

struct freelist_iter {
    const uint16_t *permutation; /* NULL: in order */
    uint32_t at, positions;      /* the next position; how many there are */
    uint32_t objects;            /* of the slab: indices are below */
    uint32_t left;               /* objects still to come */
};

/* Over all objects of a slab that is on no list and that no other thread sees. */
static inline struct freelist_iter freelist_iter_begin(const struct stook_cache *cache,
                                                       const struct slab *slab)
{
    uint32_t objects =
        slab_objects(cache, atomic_load_explicit(&slab->state, memory_order_relaxed));
    struct freelist_iter iter = {cache->permutation, 0, objects, objects, objects};

    if (iter.permutation) {
        iter.positions = cache->layout.objects;
        iter.at = random_below(iter.positions);
    }
    return iter;
}

/* The next index; only while some are left. */
static inline uint32_t freelist_iter_next(struct freelist_iter *iter)
{
    uint32_t index;

    do {
        index = iter->permutation ? iter->permutation[iter->at] : iter->at;
        iter->at = iter->at + 1 < iter->positions ? iter->at + 1 : 0;
    } while (index >= iter->objects);
    iter->left--;
    return index;
}

/* Up to n objects into the array; how many. */
static inline uint32_t freelist_iter_emit(struct freelist_iter *iter,
                                          const struct stook_cache *cache, struct slab *slab,
                                          void **objects, uint32_t n)
{
    struct freelist_iter walk =
        *iter; /* in registers: the array may be anything, for the compiler */
    uint32_t stride = cache->layout.stride;
    char *base = slab_first(cache, slab);

    if (n > walk.left)
        n = walk.left;
    if (walk.permutation) {
        for (uint32_t i = 0; i < n; i++) {
            uint32_t index = freelist_iter_next(&walk);
            objects[i] = base + (size_t)index * stride;
            mark_out(cache, slab, index);
        }
    } else { /* the same walk, whose next object lies a stride further */
        char *object = base + (size_t)walk.at * stride;
        for (uint32_t i = 0; i < n; i++, object += stride)
            objects[i] = object;
        mark_out_run(cache, slab, walk.at, n);
        walk.at += n;
        walk.left -= n;
    }
    *iter = walk;
    return n;
}

/* Links the rest; the first index of the list, SLAB_NONE when there is none. */
static inline uint32_t freelist_iter_link(struct freelist_iter *iter,
                                          const struct stook_cache *cache, struct slab *slab)
{
    struct freelist_iter walk = *iter;
    uint32_t head = walk.left > 0 ? freelist_iter_next(&walk) : SLAB_NONE;

    for (uint32_t index = head, next; index != SLAB_NONE; index = next) {
        next = walk.left > 0 ? freelist_iter_next(&walk) : SLAB_NONE;
        slab_set_link(cache, slab, index, next);
        mark_free(cache, slab, index);
    }
    slab_counts.links += iter->left;
    *iter = walk;
    return head;
}

#endif
