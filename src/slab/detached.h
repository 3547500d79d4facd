/* SPDX-License-Identifier: MIT */
/*
 * detached.h - objects that come back, sorted into one detached freelist a slab.
 *
 * The array may be in any order and hold NULL entries, which are skipped.  Every object is checked
 * against its slab: cache, bounds, stride, and that it is out of it.  A list is linked without synchronisation, since no
 * other thread sees objects that are in use.  One compare-and-swap publishes it (node_put.c).
 *
 * A list that may cover all that is in use in its slab is not linked at first.  Such a slab is free
 * as a whole, and is not written to, except its objects' marks (mark.h).
 */
#ifndef STOOK_SLAB_DETACHED_H
#define STOOK_SLAB_DETACHED_H

#include "slab/mark.h"

enum {
    DETACHED_CHUNK = 192, /* objects sorted at a time … */
    DETACHED_LISTS = 60,  /* … and slabs: the set is on the stack of free() */
    DETACHED_HASH = 256,
    DETACHED_AHEAD = 12, /* objects whose slab is fetched into the cache beforehand */
};

struct detached {
    struct slab *slab;
    uint16_t head,
        tail; /* indices, once it is linked; tail SLAB_NONE: not known (node_put_rest()) */
    uint16_t count;
    uint8_t last; /* position of the object gathered last, while it is not */
    bool linked;
};

struct detached_set {
    unsigned lists;
    struct detached list[DETACHED_LISTS];
    /* Of the object at a position of the chunk: */
    uint16_t index[DETACHED_CHUNK]; /* in its slab */
    uint8_t before[DETACHED_CHUNK]; /* position of the one gathered before it for that slab */
    uint8_t find[DETACHED_HASH];    /* 1 + a list, by hash of its slab; set with the second list */
};
_Static_assert(DETACHED_CHUNK < 255, "positions and lists are bytes");

/* Of a list whose objects were all refused the count is 0. */
/* Sorts the first objects of the array, DETACHED_CHUNK and of `most` slabs at most (DETACHED_LISTS or fewer); how
 * many. */
uint32_t detached_gather(struct stook_cache *cache, struct detached_set *set, void *const *objects,
                         uint32_t n, unsigned most);

/* Links a list that is not linked yet. */
void detached_link(struct stook_cache *cache, const struct detached_set *set,
                   struct detached *list);

/*
 * The lines that will be written to: of the slab's state, and of the object's link and mark.  Inlined by
 * force: GCC takes a function of prefetches for one without effects.
 */
static inline __attribute__((always_inline)) void detached_prefetch(const struct stook_cache *cache,
                                                                    const void *object)
{
    const struct layout *l = &cache->layout;
    uint32_t entry, offset;
    struct slab *slab;

    if (!pagemap_covers(object))
        return;
    entry = *pagemap_at(object);
    if (pagemap_cache(entry) != cache->index)
        return;
    slab = slab_at(object, entry);
    __builtin_prefetch(slab, 1);
    /* Slabs are aligned to their size; a guess where one has the minimum order, and no more. */
    offset = (uint32_t)(uintptr_t)object & (((uint32_t)PAGE_SIZE << l->order) - 1);
    if (l->link_outside) {
        __builtin_prefetch(&slab->links[layout_index(l, offset)], 1);
        return;
    }
    if (l->marks)
        __builtin_prefetch(mark_bytes(slab) + layout_index(l, offset), 1);
    __builtin_prefetch(object, 1);
}

#endif
