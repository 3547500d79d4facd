/* SPDX-License-Identifier: MIT */
/*
 * sheaf.h - an array of object pointers with a size and a capacity.
 * Sheaves come from caches of the library's own, which have no sheaves themselves.
 */
#ifndef STOOK_SHEAF_SHEAF_H
#define STOOK_SHEAF_SHEAF_H

#include "page/pagemap.h"
#include "slab/cache.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct sheaf {
    /* The sheaf is one thread's alone, a barn's (under its lock), or a slot's: then that of the thread that
     * closed the slot, and of the sections on the slot's CPU while it is open. */
    struct sheaf *next; /* in a barn, and in chains */
    uint32_t size;      /* of a slot's main sheaf only while the slot is closed (slot.h) */
    uint32_t capacity;  /* of the cache, when it was made; constant */
    void *object[];
};
_Static_assert(offsetof(struct sheaf, size) == 8, "known to the sections");
_Static_assert(offsetof(struct sheaf, capacity) == 12, "known to the sections");
_Static_assert(offsetof(struct sheaf, object) == 16, "known to the sections");

/* The node of what lies in a sheaf; `otherwise` of what is no object, which was not checked yet. */
static inline unsigned sheaf_node(const void *object, unsigned otherwise)
{
    return __builtin_expect(pagemap_covers(object), 1) ? pagemap_node(object) : otherwise;
}

/* Whether it is one of the `top` objects that came last: what comes back now was freed already. */
static inline bool sheaf_repeats(const struct sheaf *sheaf, const void *object, uint32_t top)
{
    for (uint32_t n = sheaf->size; n > 0 && top > 0; n--, top--)
        if (sheaf->object[n - 1] == object)
            return true;
    return false;
}

/* Objects on top of it, n at most; how many. */
static inline uint32_t sheaf_take(struct sheaf *sheaf, void **objects, uint32_t n)
{
    uint32_t k = sheaf->size < n ? sheaf->size : n;

    if (k > 0) /* what is read-only has none */
        sheaf->size -= k;
    if (k == 1)
        objects[0] = sheaf->object[sheaf->size];
    else
        memcpy(objects, &sheaf->object[sheaf->size], k * sizeof(void *));
    return k;
}

/* The sheaf that is none: read-only, size 0, capacity 0. */
extern const struct sheaf sheaf_none __attribute__((visibility("hidden")));
#define SHEAF_NONE ((struct sheaf *)(uintptr_t)&sheaf_none)

enum {
    SHEAF_CLASSES = 9,
    SHEAF_FLUSH_SLABS = 16,
    SHEAF_SIFT = 16, /* objects that one call of sheaf_sift() looks at */
};
/* Bytes of each class: whole cache lines, for 6, 14, 22, 38, 70, 134, 254, 510 and 1022
 * objects. */
extern const uint16_t sheaf_class_size[SHEAF_CLASSES] __attribute__((visibility("hidden")));
/* Of their caches; written out, since printing touches pages that a start has no need of. */
extern const char sheaf_class_name[SHEAF_CLASSES][sizeof("stook-sheaf-8192")]
    __attribute__((visibility("hidden")));

/* One cache a size class of sheaves; set by cache_boot() before the first sheaf. */
extern struct stook_cache *sheaf_cache[SHEAF_CLASSES] __attribute__((visibility("hidden")));

/*
 * An empty sheaf with memory near `node`, or NULL; errno is kept.  It has room for `room` objects, as many as its capacity or
 * more: the places behind the capacity are its owner's to use.
 */
struct sheaf *sheaf_alloc(unsigned capacity, unsigned room, unsigned node, bool nospin);
/* Objects it has room for. */
unsigned sheaf_room(const struct sheaf *sheaf);
/* The node that all its objects are of, or -1: several.  It has some. */
int sheaf_owner(const struct sheaf *sheaf);
/* An empty sheaf. */
void sheaf_free(struct sheaf *sheaf, bool nospin);
/*
 * An object is sparse if less than two thirds of its slab's objects are out of the slab: cached, it would hold a slab that
 * is mostly free.  Looks at the next SHEAF_SIFT objects; the sparse ones are at the bottom then.  How many of the
 * bottom a flush should begin with: the sparse ones, or all objects if all that it has looked at are sparse.
 */
uint32_t sheaf_sift(const struct stook_cache *cache, struct sheaf *sheaf);
/*
 * One step of a flush: of the n objects at the bottom, those of *slabs slabs at most go back, which become fewer by those.
 * A step of a single call has SHEAF_FLUSH_SLABS of them.  How many objects.
 */
uint32_t sheaf_flush_some(struct stook_cache *cache, struct sheaf *sheaf, uint32_t n,
                          unsigned *slabs, bool nospin);
/* Objects that were in a sheaf go back to their slabs. */
void sheaf_flush_array(struct stook_cache *cache, void *const *objects, uint32_t n, bool nospin);
/* Its objects go back to their slabs; it is empty afterwards. */
void sheaf_flush(struct stook_cache *cache, struct sheaf *sheaf, bool nospin);
/* The sheaves of a chain (linked by ->next; may be NULL) are flushed and freed. */
void sheaf_drop(struct stook_cache *cache, struct sheaf *chain, bool nospin);

/*
 * A sheaf from a barn was another CPU's, whose cache has its pointers.  All lines are asked for at
 * once, not one by one as pops or, to an empty one, pushes come to them.
 */
void sheaf_expect(const struct sheaf *sheaf);

#endif
