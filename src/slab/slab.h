/* SPDX-License-Identifier: MIT */
/*
 * slab.h - one slab: its state word, its freelist, and the checks on objects that come back.
 *
 * state word (64 bits):  head 16 | in use 16 | sequence 24 | flags 8
 *   head     index of the first free object, or SLAB_NONE
 *   in use   objects handed out (to users, sheaves or barns)
 *   sequence grows with every change, so that a word that looks unchanged is unchanged
 *   flags    SLAB_MIN: made with the cache's minimum order
 *            SLAB_TAGGED: it has the column of tags; made while call sites were counted
 *            SLAB_GUARDED: its run has one page more, without access (runs.h)
 *            SLAB_PENDING: a handler left this slab's list work to the interrupted holder
 *
 * States and lists (a slab is on its node's partial list if and only if it is `partial`, or
 * while it is pending):
 *   full     head none, in use > 0     on no list
 *   partial  head some, in use > 0     node->partial
 *   empty    in use 0                  node->empty, or given back; its freelist means nothing
 *
 * Threads that may change the word:
 *   without a lock  push a detached list onto a partial slab that stays partial; push onto a
 *                   pending slab; set pending together with such a push
 *   with node->lock everything else: full -> partial, -> empty, taking objects, ending pending
 * So a slab with an object in use cannot vanish under the thread that frees that object, and exactly one
 * thread sees a slab become empty.
 */
#ifndef STOOK_SLAB_SLAB_H
#define STOOK_SLAB_SLAB_H

#include "page/arena.h"
#include "page/pagemap.h"
#include "slab/cache.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum {
    SLAB_NONE = 0xffff,
    SLAB_MIN = 1,
    SLAB_PENDING = 2,
    SLAB_TAGGED = 4,
    SLAB_GUARDED = 8,
};

struct slab {
    _Atomic uint64_t state; /* by compare-and-swap, without and with node->lock: see above */
    struct list link;       /* node->partial or node->empty; under node->lock */
    uint32_t page;          /* number of its first page in the arena; constant after create */
    uint32_t deferred; /* 1 + page of the next slab, 0: none; the thread that marked it pending */
    uint16_t links[];  /* outside links, when the layout has them here; of the thread that detached
                        * them, or of a push before its swap of the state */
};
_Static_assert(sizeof(struct slab) == LAYOUT_DESCRIPTOR, "the planner counts on it");

static inline uint64_t slab_word(uint32_t head, uint32_t inuse, uint64_t seq, uint32_t flags)
{
    return (uint64_t)(head & 0xffff) | (uint64_t)(inuse & 0xffff) << 16 | (seq & 0xffffff) << 32 |
           (uint64_t)flags << 56;
}
static inline uint32_t slab_head(uint64_t word)
{
    return word & 0xffff;
}
static inline uint32_t slab_inuse(uint64_t word)
{
    return word >> 16 & 0xffff;
}
static inline uint64_t slab_seq(uint64_t word)
{
    return word >> 32 & 0xffffff;
}
static inline uint32_t slab_flags(uint64_t word)
{
    return (uint32_t)(word >> 56);
}

static inline char *slab_base(const struct slab *slab)
{
    return (char *)pagemap.base + ((size_t)slab->page << PAGE_SHIFT);
}

/* Its first object: where what layout_index() takes is counted from. */
static inline char *slab_first(const struct stook_cache *cache, const struct slab *slab)
{
    return slab_base(slab) + cache->layout.lead;
}

static inline void *slab_object(const struct stook_cache *cache, const struct slab *slab,
                                uint32_t index)
{
    return slab_first(cache, slab) + (size_t)index * cache->layout.stride;
}

static inline unsigned slab_node(const struct slab *slab)
{
    return pagemap_node(slab_base(slab));
}

static inline unsigned slab_objects(const struct stook_cache *cache, uint64_t word)
{
    return slab_flags(word) & SLAB_MIN ? cache->layout.min_objects : cache->layout.objects;
}

static inline unsigned slab_order(const struct stook_cache *cache, uint64_t word)
{
    return slab_flags(word) & SLAB_MIN ? cache->layout.min_order : cache->layout.order;
}

/* The freelist column.  No other code knows where a link lies. */
static inline uint16_t *slab_link(const struct stook_cache *cache, const struct slab *slab,
                                  uint32_t index)
{
    const struct layout *l = &cache->layout;
    char *base = l->link_outside ? (char *)(uintptr_t)slab : slab_base(slab);

    return (uint16_t *)(void *)(base + l->link_offset + (size_t)index * l->link_stride);
}

/* What is stored for a link from one index to the next. */
static inline uint16_t slab_encode(const struct stook_cache *cache, uint32_t index, uint32_t next)
{
    return (uint16_t)(STOOK_ENCODED ? next ^ cache->secret ^ index : next);
}

static inline void slab_set_link(const struct stook_cache *cache, struct slab *slab, uint32_t index,
                                 uint32_t next)
{
    *slab_link(cache, slab, index) = slab_encode(cache, index, next);
}

/* Events of this thread's path through slabs, which times would not show.  See tests/unit/test_events.c. */
struct slab_counts {
    uint64_t swaps;   /* compare-and-swaps of state words that took effect */
    uint64_t links;   /* links written */
    uint64_t lists;   /* acquisitions of a node's lock */
    uint64_t whole;   /* slabs that came back, or were handed out, without a link being written */
    uint64_t touches; /* paths into slabs, except for the library's own sheaves and caches */
};
extern __thread struct slab_counts slab_counts
    __attribute__((visibility("hidden"), tls_model("initial-exec")));

/* The decoded link, where one more object must follow.  Another value is corruption, and so is the end: it gets the
 * report, and the list ends there (SLAB_NONE) if the program goes on. */
uint32_t slab_follow(const struct stook_cache *cache, const struct slab *slab, uint32_t index,
                     uint32_t objects);

static inline struct slab *slab_at(const void *object, uint32_t entry)
{
    return arena_meta(object, pagemap_granule(entry));
}

/* A new slab on `node` whose objects all count as handed out; NULL without memory. */
struct slab *slab_make(struct stook_cache *cache, unsigned node, bool nospin);
/* A new slab's elements become 0.  Tags then say "none": threads may free past the hooks until they notice. */
void slab_clear(const struct stook_cache *cache, const struct slab *slab, enum layout_which which);
/* Gives an empty slab back; it is on no list.  A type-stable cache's goes to RCU first (hooks.h). */
void slab_unmake(struct stook_cache *cache, struct slab *slab);
/* The same at once: no reader can look at it. */
void slab_release(struct stook_cache *cache, struct slab *slab);
/* The slab of an object that is known to be one of the cache, and its index there. */
static inline struct slab *slab_find(const struct stook_cache *cache, const void *object,
                                     uint32_t *index)
{
    struct slab *slab = slab_at(object, *pagemap_at(object));

    *index =
        layout_index(&cache->layout, (uint32_t)((const char *)object - slab_first(cache, slab)));
    return slab;
}

/* The slab of an object and its index there, checked: cache, bounds, stride; or the report, and NULL if
 * the program goes on. */
struct slab *slab_of(const struct stook_cache *cache, const void *object, uint32_t *index);

/* The first page from `page` on that has a slab of the cache; SIZE_MAX: none has.  Pages are counted from the window's
 * base. */
size_t slab_search(const struct stook_cache *cache, size_t page);

/* The cache an address belongs to, or NULL: no object of a slab. */
struct stook_cache *slab_cache_of(const void *object);
/* The same of what a user may have; NULL for an object of the library's own caches. */
struct stook_cache *slab_user_cache(const void *object);
/* Bytes of an object that its user may write to. */
static inline size_t slab_usable(const struct stook_cache *cache)
{
    return cache->ctor || cache->dtor ? cache->object_size : cache->layout.room;
}

#endif
