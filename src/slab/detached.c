/* SPDX-License-Identifier: MIT */
#include "slab/detached.h"

#include <string.h>

static unsigned detached_hash(const struct slab *slab)
{
    return (unsigned)(((uintptr_t)slab >> 4) * 0x9e3779b97f4a7c15u >> 56);
}

/* The slab's list; a new one has count 0. */
static struct detached *detached_find(struct detached_set *set, struct slab *slab)
{
    unsigned at = detached_hash(slab);
    struct detached *list;

    if (set->lists > 0) {
        if (set->lists == 1) { /* one list needs no hash */
            memset(set->find, 0, sizeof(set->find));
            set->find[detached_hash(set->list[0].slab)] = 1;
        }
        for (; set->find[at]; at = (at + 1) % DETACHED_HASH)
            if (set->list[set->find[at] - 1].slab == slab)
                return &set->list[set->find[at] - 1];
        set->find[at] = (uint8_t)(set->lists + 1);
    }
    list = &set->list[set->lists++];
    list->slab = slab;
    list->count = 0;
    return list;
}

/* The lines that will be written to: of the slab's state, and of the object's link. */
static void detached_prefetch(const struct stook_cache *cache, const void *object)
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
    __builtin_prefetch(l->link_outside ? (const void *)&slab->links[layout_index(l, offset)] : object,
                       1);
}

uint32_t detached_gather(struct stook_cache *cache, struct detached_set *set, void *const *objects,
                         uint32_t n)
{
    uint32_t stride = cache->layout.stride, limit = 0, count = 0, head = 0, links = 0;
    struct detached *list = NULL;
    bool linked = false;
    uintptr_t base = 1, bytes = 0;

    set->lists = 0;
    if (n > DETACHED_CHUNK)
        n = DETACHED_CHUNK;
    for (uint32_t i = 0; i < n; i++) {
        uintptr_t offset = (uintptr_t)objects[i] - base;
        uint32_t index;
        if (i + DETACHED_AHEAD < n && (uintptr_t)objects[i + DETACHED_AHEAD] - base >= bytes)
            detached_prefetch(cache, objects[i + DETACHED_AHEAD]);
        if (offset >= bytes) { /* of another slab than the one before */
            struct slab *slab;
            uint64_t word;
            if (!objects[i])
                continue;
            if (list) {
                list->count = (uint16_t)count;
                list->head = (uint16_t)head;
            }
            slab = slab_of(cache, objects[i], &index);
            word = atomic_load_explicit(&slab->state, memory_order_relaxed);
            list = detached_find(set, slab);
            base = (uintptr_t)slab_base(slab);
            bytes = (uintptr_t)PAGE_SIZE << slab_order(cache, word);
            limit = slab_objects(cache, word);
            if (list->count == 0)
                list->linked = slab_inuse(word) > n - i;
            count = list->count;
            head = list->head;
            linked = list->linked;
            offset = (uintptr_t)objects[i] - base;
        }
        index = layout_index(&cache->layout, (uint32_t)offset);
        if (__builtin_expect(index * stride != offset || index >= limit, 0))
            slab_report(cache, objects[i], "is not the start of an object");
        if (count == 0)
            list->tail = (uint16_t)index;
        else if (__builtin_expect(index == head, 0))
            slab_report(cache, objects[i], "is freed twice");
        if (!linked) {
            set->index[i] = (uint16_t)index;
            set->before[i] = list->last;
            list->last = (uint8_t)i;
        } else if (count > 0) {
            slab_set_link(cache, list->slab, index, head);
            links++;
        }
        head = index;
        count++;
    }
    if (list) {
        list->count = (uint16_t)count;
        list->head = (uint16_t)head;
    }
    slab_counts.links += links;
    return n;
}

void detached_link(struct stook_cache *cache, const struct detached_set *set,
                   struct detached *list)
{
    uint32_t at = list->last;

    for (uint32_t i = 1; i < list->count; i++, at = set->before[at])
        slab_set_link(cache, list->slab, set->index[at], set->index[set->before[at]]);
    slab_counts.links += list->count - 1u;
    list->linked = true;
}
