/* SPDX-License-Identifier: MIT */
/* walk.c - visits the slabs of a cache by the page map, one after the other. */
#include "watch/walk.h"

#include "harden/quarantine.h"
#include "page/zone.h"
#include "slab/mark.h"

#include <string.h>

void walk_begin(struct walk *walk, struct stook_cache *cache)
{
    walk->cache = cache;
    walk->page = 0;
}

/* Marks are written by the threads that move objects, without a lock: what is in motion may be either. */
__attribute__((no_sanitize("thread"))) static bool walk_read(struct walk *walk,
                                                             const struct slab *slab, uint64_t word)
{
    bool any = false;

    walk->base = slab_first(walk->cache, slab);
    walk->objects = slab_objects(walk->cache, word);
    memset(walk->out, 0, (walk->objects + 63) / 64 * sizeof(walk->out[0]));
    for (uint32_t i = 0; i < walk->objects; i++)
        if (mark_is_out(walk->cache, slab, i) && quarantine_is_live(walk->cache, slab, i)) {
            walk->out[i / 64] |= (uint64_t)1 << i % 64;
            any = true;
        }
    return any;
}

/* The slab that begins at this page, if one does.  The marks of an empty slab are not valid. */
static bool walk_slab(struct walk *walk, size_t page)
{
    char *base = (char *)pagemap.base + (page << PAGE_SHIFT);
    struct zone *zone = &zone_all.zone[pagemap_zone(base)];
    bool any = false;
    uint32_t entry;

    lock_take(&zone->lock, LOCK_ARENA);
    entry = __atomic_load_n(&pagemap.entry[page], __ATOMIC_ACQUIRE);
    if (pagemap_cache(entry) == walk->cache->index) {
        const struct slab *slab = slab_at(base, entry);
        uint64_t word = atomic_load_explicit(&slab->state, memory_order_acquire);
        if (slab->page == page && slab_inuse(word) > 0)
            any = walk_read(walk, slab, word);
    }
    lock_drop(&zone->lock, LOCK_ARENA);
    return any;
}

bool walk_next(struct walk *walk)
{
    size_t end = slab_pages_end(), page = walk->page;

    while ((page = slab_search(walk->cache, page, end)) < end)
        if (walk_slab(walk, page++)) {
            walk->page = page;
            return true;
        }
    walk->page = end;
    return false;
}
