/* SPDX-License-Identifier: MIT */
/*
 * runs.h - the pages that slabs are made of, from the arena: a guard page behind a slab, and pages that stay one
 * cache's for good (STOOK_CACHE_GUARD_PAGES, STOOK_CACHE_OWN_PAGES).
 */
#ifndef STOOK_SLAB_RUNS_H
#define STOOK_SLAB_RUNS_H

#include "page/arena.h"
#include "slab/column.h"
#include "slab/slab.h"

/* Of an ordinary cache, or with a page more; NULL without memory. */
char *runs_from_arena(const struct stook_cache *cache, unsigned node, unsigned order,
                      uint32_t flags, bool guard, bool nospin, void **meta);
/* Of a cache with guard pages, or pages of its own. */
void runs_give_hardened(struct stook_cache *cache, struct slab *slab);
char *runs_take_hardened(struct stook_cache *cache, unsigned node, unsigned order, uint32_t *flags,
                         bool nospin, void **meta);

/*
 * Pages for a slab with these SLAB_* flags, and *meta for its descriptor; NULL without memory.  *flags gets
 * SLAB_GUARDED where there is one page more than the slab has.  Inlined: this is malloc's deepest path.
 */
static inline char *runs_take(struct stook_cache *cache, unsigned node, unsigned order,
                              uint32_t *flags, bool nospin, void **meta)
{
    if (__builtin_expect(cache->flags & (STOOK_CACHE_GUARD_PAGES | STOOK_CACHE_OWN_PAGES), 0))
        return runs_take_hardened(cache, node, order, flags, nospin, meta);
    return runs_from_arena(cache, node, order, *flags, false, nospin, meta);
}

/* The pages of a slab that is gone: to the arena, or onto the list of its cache's own. */
static inline void runs_give(struct stook_cache *cache, struct slab *slab)
{
    uint64_t word = atomic_load_explicit(&slab->state, memory_order_relaxed);
    uint32_t flags = slab_flags(word);

    if (__builtin_expect((cache->flags & STOOK_CACHE_OWN_PAGES) | (flags & SLAB_GUARDED), 0))
        runs_give_hardened(cache, slab);
    else
        arena_free(slab_base(slab), (size_t)1 << slab_order(cache, word), slab,
                   column_meta(cache, flags));
}

/* Before the first cache with guard pages: reads how many mappings the kernel allows. */
void runs_start(void);

/* Guard pages that there are now, and how many there may be. */
extern _Atomic uint32_t runs_guards __attribute__((visibility("hidden")));
extern _Atomic uint32_t runs_guards_most __attribute__((visibility("hidden")));

#endif
