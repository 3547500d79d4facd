/* SPDX-License-Identifier: MIT */
#include "leak/inventory.h"

#include "cache/cache_list.h"
#include "debug/object.h"
#include "debug/pages.h"
#include "large/begin.h"
#include "page/zone.h"
#include "sheaf/sheaf.h"
#include "slab/mark.h"

#include <string.h>

/* What begins at a page. */
struct inventory_item {
    struct stook_cache *cache; /* NULL: a large object, or nothing */
    const struct slab *slab;
    uint64_t word;  /* of the slab's state */
    uint32_t pages; /* 0: nothing */
};

/* Where the two parts of the window lie: the library's own, the program's. */
struct inventory_part {
    uintptr_t begin, end;
};

static struct inventory_part inventory_own(void)
{
    return (struct inventory_part){
        pagemap.base + atomic_load_explicit(&pagemap.high, memory_order_acquire), pagemap.middle};
}

static struct inventory_part inventory_program(void)
{
    return (struct inventory_part){
        pagemap.middle, pagemap.middle + atomic_load_explicit(&pagemap.low, memory_order_acquire)};
}

static struct inventory_item inventory_at(uintptr_t address)
{
    const void *page = (const void *)address;
    uint32_t entry = __atomic_load_n(pagemap_at(page), __ATOMIC_ACQUIRE);
    struct stook_cache *cache = cache_table[pagemap_cache(entry)];
    const struct slab *slab;
    uint64_t word;

    if (pagemap_cache(entry) == 0)
        return (struct inventory_item){.pages = pages_holds(page) ? 0 : begin_find(page).pages};
    if (!cache)
        return (struct inventory_item){0};
    slab = slab_at(page, entry);
    if (slab->page != (address - pagemap.base) >> PAGE_SHIFT)
        return (struct inventory_item){0};
    word = atomic_load_explicit(&slab->state, memory_order_acquire);
    return (struct inventory_item){cache, slab, word, 1u << slab_order(cache, word)};
}

static uintptr_t inventory_next(uintptr_t address, const struct inventory_item *item)
{
    return address + ((uintptr_t)(item->pages ? item->pages : 1) << PAGE_SHIFT);
}

/* ---- the tables ------------------------------------------------------------------------------- */

struct inventory_sizes {
    uint64_t pages, runs, objects;
};

/* With some room for threads that could not be stopped. */
static struct inventory_sizes inventory_sizes(void)
{
    struct inventory_part part = inventory_program();
    struct inventory_sizes sizes = {.pages = (part.end - part.begin) >> PAGE_SHIFT};
    struct inventory_item item;

    for (uintptr_t at = part.begin; at < part.end; at = inventory_next(at, &item)) {
        item = inventory_at(at);
        if (item.pages == 0)
            continue;
        sizes.runs++;
        sizes.objects += item.cache ? slab_objects(item.cache, item.word) : 1;
    }
    sizes.runs += sizes.runs / 8 + 64;
    sizes.objects += sizes.objects / 8 + 4096;
    return sizes;
}

static struct inventory_sizes inventory_sized;

size_t inventory_size(void)
{
    inventory_sized = inventory_sizes();
    return HEAP_CHUNK + inventory_sized.runs * sizeof(struct heap_run) +
           inventory_sized.objects * (sizeof(uint32_t) + 1) +
           inventory_sized.pages * sizeof(uint32_t) + 64;
}

/* Out of its slab, and of a debug cache with a user. */
__attribute__((no_sanitize("thread"))) static bool inventory_is_live(
    const struct inventory_item *item, uint32_t index)
{
    if (slab_inuse(item->word) == 0 || !mark_is_out(item->cache, item->slab, index))
        return false;
    return !(item->cache->flags & CACHE_DEBUG) || !track_head(item->cache, item->slab, index) ||
           (atomic_load_explicit(object_word(item->cache, item->slab, index),
                                 memory_order_relaxed) &
            OBJECT_STATE) == OBJECT_LIVE;
}

static void inventory_add(struct heap *heap, uintptr_t address, const struct inventory_item *item)
{
    struct heap_run *run = &heap->run[heap->runs++];

    if (item->cache) {
        *run = (struct heap_run){(uintptr_t)slab_first(item->cache, item->slab),
                                 item->cache->layout.stride,
                                 slab_usable(item->cache),
                                 slab_objects(item->cache, item->word),
                                 heap->objects,
                                 item->cache};
        for (uint32_t i = 0; i < run->objects; i++)
            heap->state[run->first + i] = inventory_is_live(item, i) ? HEAP_LIVE : 0;
    } else {
        uint64_t bytes = (uint64_t)item->pages << PAGE_SHIFT;
        *run = (struct heap_run){address, bytes, bytes, 1, heap->objects, NULL};
        heap->state[run->first] = HEAP_LIVE;
    }
    for (uint32_t i = 0; i < item->pages; i++)
        heap->page[((address - heap->begin) >> HEAP_PAGE_SHIFT) + i] = heap->runs;
    heap->objects += run->objects;
}

/* What a sheaf has is free. */
__attribute__((no_sanitize("thread"))) static void inventory_sheaf(struct heap *heap,
                                                                   const struct sheaf *sheaf,
                                                                   size_t room)
{
    uint64_t inside;
    uint32_t object;

    for (uint32_t i = 0; i < sheaf->size && i < room; i++)
        if (heap_find(heap, (uintptr_t)sheaf->object[i], &object, &inside) && inside == 0)
            heap->state[object] &= (uint8_t)~HEAP_LIVE;
}

static bool inventory_is_sheaf(const struct stook_cache *cache)
{
    for (unsigned i = 0; i < SHEAF_CLASSES; i++)
        if (sheaf_cache[i] == cache)
            return true;
    return false;
}

static void inventory_sheaves(struct heap *heap)
{
    struct inventory_part part = inventory_own();
    struct inventory_item item;

    for (uintptr_t at = part.begin; at < part.end; at = inventory_next(at, &item)) {
        item = inventory_at(at);
        if (item.pages == 0 || !item.cache || !inventory_is_sheaf(item.cache))
            continue;
        for (uint32_t i = 0; i < slab_objects(item.cache, item.word); i++)
            if (inventory_is_live(&item, i))
                inventory_sheaf(heap, slab_object(item.cache, item.slab, i),
                                (item.cache->object_size - sizeof(struct sheaf)) / sizeof(void *));
    }
}

bool inventory_take(struct heap *heap, void *memory)
{
    struct inventory_part part = inventory_program();
    struct inventory_item item;
    char *at = memory;

    heap->begin = part.begin;
    heap->end = part.begin + (inventory_sized.pages << PAGE_SHIFT);
    heap->buffer = at;
    at += HEAP_CHUNK;
    heap->run = (struct heap_run *)(void *)at;
    at += inventory_sized.runs * sizeof(struct heap_run);
    heap->work = (uint32_t *)(void *)at;
    at += inventory_sized.objects * sizeof(uint32_t);
    heap->page = (uint32_t *)(void *)at;
    heap->state = (uint8_t *)(heap->page + inventory_sized.pages);
    heap->runs = heap->objects = heap->working = 0;
    for (uintptr_t page = heap->begin; page < heap->end; page = inventory_next(page, &item)) {
        item = inventory_at(page);
        if (item.pages == 0)
            continue;
        if (heap->runs == inventory_sized.runs ||
            heap->objects + (item.cache ? slab_objects(item.cache, item.word) : 1) >
                inventory_sized.objects ||
            item.pages > (heap->end - page) >> PAGE_SHIFT)
            return false;
        inventory_add(heap, page, &item);
    }
    inventory_sheaves(heap);
    return true;
}

void inventory_roots(struct heap *heap)
{
    struct inventory_part part = inventory_own();
    struct inventory_item item;

    for (uintptr_t at = part.begin; at < part.end; at = inventory_next(at, &item)) {
        item = inventory_at(at);
        if (item.pages > 0 && !item.cache)
            heap_root_memory(heap, at, (uint64_t)item.pages << PAGE_SHIFT);
        else if (item.pages > 0 && !inventory_is_sheaf(item.cache))
            for (uint32_t i = 0; i < slab_objects(item.cache, item.word); i++)
                if (inventory_is_live(&item, i))
                    heap_root_memory(heap, (uintptr_t)slab_object(item.cache, item.slab, i),
                                     item.cache->object_size);
    }
}
