/* SPDX-License-Identifier: MIT */
/*
 * slab.c - makes and returns slabs, links their freelists, and finds the slab of an address.
 */
#include "slab/slab.h"

#include "base/cancel.h"
#include "base/context.h"
#include "base/hooks.h"
#include "base/probe.h"
#include "base/report.h"
#include "page/arena.h"
#include "slab/column.h"
#include "slab/mark.h"
#include "slab/runs.h"
#include "slab/stat.h"
#include "slab/wrong.h"

#include <errno.h>
#include <string.h>

__thread struct slab_counts slab_counts;

static void slab_map(const struct slab *slab, unsigned order, uint32_t entry)
{
    /* Granules are counted from the metadata of the page's own block, and the descriptor lies in the first block's. */
    uint32_t block = entry ? (uint32_t)(BLOCK_META / ARENA_GRANULE) << 16 : 0;

    for (unsigned i = 0; i < 1u << order; i++)
        /* Release: the descriptor, for readers that find it by the map alone (watch/walk.c). */
        __atomic_store_n(&pagemap.entry[slab->page + i], entry - i / BLOCK_PAGES * block,
                         __ATOMIC_RELEASE);
}

/*
 * The user's constructor or destructor over all objects.  It may use the library: no lock is held
 * here, so it is outside again, unless a handler runs this on top of a call inside.
 */
static __attribute__((cold)) void slab_each(const struct stook_cache *cache, char *first,
                                            unsigned objects, void (*hook)(void *object, void *arg))
{
    bool outermost = context_self()->depth == 1;
    int cancel = cancel_off();

    if (outermost)
        context_leave();
    for (unsigned i = 0; i < objects; i++)
        hook(first + (size_t)i * cache->layout.stride, cache->arg);
    if (outermost)
        context_enter();
    cancel_on(cancel);
}

__attribute__((cold)) void slab_clear(const struct stook_cache *cache, const struct slab *slab,
                                      enum layout_which which)
{
    uint64_t word = atomic_load_explicit(&slab->state, memory_order_relaxed);

    for (uint32_t i = 0; i < slab_objects(cache, word); i++)
        memset(column_at(cache, slab, which, i), 0, cache->layout.column[0][which].element);
}

struct slab *slab_make(struct stook_cache *cache, unsigned node, bool nospin)
{
    const struct layout *l = &cache->layout;
    unsigned order = l->order, objects = l->objects;
    uint32_t flags = cache_parts(cache) & ACCOUNT_TAG ? SLAB_TAGGED : 0;
    void *meta = NULL;
    char *base = runs_take(cache, node, order, &flags, nospin, &meta);

    if (!base && l->min_order < order) { /* memory is short: the least that holds an object */
        order = l->min_order;
        objects = l->min_objects;
        flags |= SLAB_MIN;
        base = runs_take(cache, node, order, &flags, nospin, &meta);
    }
    if (!base) {
        PROBE2(slab_refused, &cache->name[0], node);
        errno = ENOMEM;
        return NULL;
    }
    if (!(cache->flags & (CACHE_MALLOC | CACHE_INTERNAL)))
        arena_bind_new(pagemap_zone(base), nospin);
    struct slab *slab = meta;
    slab->link.next = slab->link.prev = NULL;
    slab->page = (uint32_t)(((uintptr_t)base - pagemap.base) >> PAGE_SHIFT);
    slab->deferred = 0;
    atomic_store_explicit(&slab->state, slab_word(SLAB_NONE, objects, 0, flags),
                          memory_order_relaxed);
    if (flags & SLAB_TAGGED) {
        slab_clear(cache, slab, LAYOUT_TAG);
        atomic_fetch_add_explicit(&cache->tagged, (uint64_t)PAGE_SIZE << order,
                                  memory_order_relaxed);
    }
    if ((flags & SLAB_MIN) && cache->start)
        __atomic_store_n(cache->start, 0, __ATOMIC_RELAXED); /* before its first object is out */
    if (cache->flags & CACHE_KEPT)
        hooks.slab(cache, slab, true);
    slab_map(slab, order, pagemap_entry(cache->index, arena_granule(base, meta)));
    if (cache->ctor)
        slab_each(cache, slab_first(cache, slab), objects, cache->ctor);
    stat_add(cache, STAT_alloc_slab, 1);
    stat_add(cache, STAT_order_fallback, (flags & SLAB_MIN) != 0);
    PROBE6(slab_made, &cache->name[0], slab, base, objects, order, node);
    return slab;
}

void slab_unmake(struct stook_cache *cache, struct slab *slab)
{
    if (cache->flags & STOOK_CACHE_TYPESAFE)
        hooks_rcu()(HOOKS_RCU_SLAB, cache, slab);
    else
        slab_release(cache, slab);
}

void slab_release(struct stook_cache *cache, struct slab *slab)
{
    uint64_t word = atomic_load_explicit(&slab->state, memory_order_relaxed);
    unsigned order = slab_order(cache, word), objects = slab_objects(cache, word);

    STOOK_ASSERT(slab_inuse(word) == 0 && !list_linked(&slab->link));
    STOOK_ASSERT(!(slab_flags(word) & SLAB_PENDING));
    if (cache->dtor)
        slab_each(cache, slab_first(cache, slab), objects, cache->dtor);
    if (hooks.slab && ((slab_flags(word) & SLAB_TAGGED) || (cache->flags & CACHE_KEPT)))
        hooks.slab(cache, slab, false);
    slab_map(slab, order, 0);
    if (slab_flags(word) & SLAB_TAGGED)
        atomic_fetch_sub_explicit(&cache->tagged, (uint64_t)PAGE_SIZE << order,
                                  memory_order_relaxed);
    stat_add(cache, STAT_free_slab, 1);
    PROBE4(slab_released, &cache->name[0], slab, objects, order);
    runs_give(cache, slab);
}

uint32_t slab_follow(const struct stook_cache *cache, const struct slab *slab, uint32_t index,
                     uint32_t objects)
{
    uint32_t next = slab_encode(cache, index, *slab_link(cache, slab, index));

    if (__builtin_expect(STOOK_ENCODED && next >= objects, 0)) {
        wrong_link(cache, slab, index, next, objects);
        return SLAB_NONE;
    }
    return next;
}

struct slab *slab_of(const struct stook_cache *cache, const void *object, uint32_t *index)
{
    enum debug_what what = DEBUG_FOREIGN;

    if (__builtin_expect(pagemap_covers(object), 1)) {
        uint32_t entry = *pagemap_at(object);
        what = DEBUG_WRONG_CACHE;
        if (__builtin_expect(pagemap_cache(entry) == cache->index, 1)) {
            struct slab *slab = slab_at(object, entry);
            uint64_t word = atomic_load_explicit(&slab->state, memory_order_relaxed);
            size_t offset = (size_t)((const char *)object - slab_first(cache, slab));
            what = DEBUG_INTERIOR;
            if (__builtin_expect(layout_starts(&cache->layout, (uint32_t)offset,
                                               slab_objects(cache, word), index),
                                 1))
                return slab;
        }
    }
    wrong_free(cache, object, what);
    return NULL;
}

/* The parts of the library's own objects and of the program's are in one piece. */
__attribute__((cold)) size_t slab_search(const struct stook_cache *cache, size_t page)
{
    size_t high = atomic_load_explicit(&pagemap.high, memory_order_relaxed) >> PAGE_SHIFT;
    size_t low = atomic_load_explicit(&pagemap.low, memory_order_relaxed);
    size_t end = (pagemap.middle - pagemap.base + low) >> PAGE_SHIFT;

    if (page < high)
        page = high;
    /* Acquire: pairs with the release in slab_map(), behind which the descriptor is written. */
    while (page < end &&
           pagemap_cache(__atomic_load_n(&pagemap.entry[page], __ATOMIC_ACQUIRE)) != cache->index)
        page++;
    return page < end ? page : SIZE_MAX;
}

struct stook_cache *slab_user_cache(const void *object)
{
    struct stook_cache *cache = slab_cache_of(object);

    return cache && !(cache->flags & CACHE_INTERNAL) ? cache : NULL;
}
