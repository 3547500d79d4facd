/* SPDX-License-Identifier: MIT */
/*
 * mark.h - one mark an object: whether it is out of its slab (with a user, in a sheaf, in a barn) or
 * free in it.  Set when objects are emitted, tested and taken back where they return (detached.c), so
 * that an object that is freed twice is seen, however many its slab has in use.
 *
 *   links outside              the link is the mark: SLAB_OUT while the object is out
 *   links in the free object   a byte behind the descriptor: MARK_OUT or MARK_FREE
 *
 * Only the thread that takes an object out of its slab, or brings it back, writes its mark, and no two
 * objects' marks share a word that is read, changed and written.  So marks need no lock and no atomics.
 * Two threads that free the same object at the same instant can both find it out: then the slab's count
 * of objects in use is what is left to notice.
 */
#ifndef STOOK_SLAB_MARK_H
#define STOOK_SLAB_MARK_H

#include "slab/slab.h"
#include "slab/wrong.h"

#include <string.h>

/*
 * The link of an object that is out, before it is stored xor the secret; not xor its index, so that
 * all in a slab are the same.  No link xor its index is this: indices are below 0x7fff, and SLAB_NONE xor
 * one of them is above 0x8000.
 */
enum { SLAB_OUT = 0x8000, MARK_FREE = 0, MARK_OUT = 1 };
_Static_assert(STOOK_SLAB_OBJECTS_MAX <= 0x7fff, "no index xor a link is SLAB_OUT");

/* What is stored for it. */
static inline uint16_t mark_link(const struct stook_cache *cache)
{
    return (uint16_t)(cache->secret ^ SLAB_OUT);
}

/* The marks that are bytes. */
static inline uint8_t *mark_bytes(const struct slab *slab)
{
    return (uint8_t *)(uintptr_t)slab->links;
}

/* Always inlined: in a caller that ThreadSanitizer does not look at (walk.c), neither is the read. */
static inline __attribute__((always_inline)) bool mark_is_out(const struct stook_cache *cache,
                                                              const struct slab *slab,
                                                              uint32_t index)
{
    if (cache->layout.marks)
        return mark_bytes(slab)[index] == MARK_OUT;
    return *slab_link(cache, slab, index) == mark_link(cache);
}

/* The object leaves its slab. */
static inline void mark_out(const struct stook_cache *cache, struct slab *slab, uint32_t index)
{
    if (!STOOK_ENCODED)
        return;
    if (cache->layout.marks)
        mark_bytes(slab)[index] = MARK_OUT;
    else
        *slab_link(cache, slab, index) = mark_link(cache);
}

/* n that follow each other; of a slab that no other thread sees. */
static inline void mark_out_run(const struct stook_cache *cache, struct slab *slab, uint32_t index,
                                uint32_t n)
{
    const uint64_t four = mark_link(cache) * (uint64_t)0x0001000100010001;
    uint32_t stride = cache->layout.link_stride;
    char *at;

    if (!STOOK_ENCODED)
        return;
    if (cache->layout.marks) {
        memset(mark_bytes(slab) + index, MARK_OUT, n);
        return;
    }
    at = (char *)slab_link(cache, slab, index);
    if (stride == LAYOUT_LINK_SIZE)
        for (; n >= 4; n -= 4, at += sizeof(four))
            memcpy(at, &four, sizeof(four));
    for (; n > 0; n--, at += stride)
        *(uint16_t *)(void *)at = (uint16_t)four;
}

/* The object was not out when it was emitted; its link, where that is its mark, is set by itself. */
static inline void mark_free(const struct stook_cache *cache, struct slab *slab, uint32_t index)
{
    if (STOOK_ENCODED && cache->layout.marks)
        mark_bytes(slab)[index] = MARK_FREE;
}

/* An object is freed, but may stay out of its slab: in a sheaf.  False: it is not out, which was reported,
 * and the free is refused. */
static inline bool mark_check(const struct stook_cache *cache, const struct slab *slab,
                              uint32_t index)
{
    if (!STOOK_ENCODED || __builtin_expect(mark_is_out(cache, slab, index), 1))
        return true;
    wrong_mark(cache, slab, index);
    return false;
}

#endif
