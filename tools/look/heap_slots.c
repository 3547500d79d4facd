/* SPDX-License-Identifier: MIT */
/*
 * heap_slots.c - the sheaves of CPUs and barns.
 */
#include "look/heap_own.h"

#include <stdlib.h>
#include <string.h>

/* One CPU's part of a cache: addresses of sheaves, 0: none. */
struct slots_one {
    uint64_t main, spare, rcu, remote;
    uint32_t size; /* of main, which says so itself only in locked mode */
};

static uint64_t slots_address(const struct heap *heap, uint32_t index, unsigned cpu)
{
    const struct view *v = &heap->view;

    return heap->own->areas + ((uint64_t)cpu << view_value(v, VIEW_STOOK_AREA_SHIFT)) +
           ((uint64_t)index << view_value(v, VIEW_SLOT_SHIFT));
}

static uint32_t slots_most(const struct heap *heap, uint64_t size)
{
    uint64_t most = view_value(&heap->view, VIEW_STOOK_SHEAF_CAPACITY_MAX);

    most = most ? most : VIEW_SHEAF_MAX;
    return (uint32_t)(size < most ? size : most);
}

/* Objects of a sheaf that lies where the library's own objects lie; 0 of any other address. */
static uint32_t slots_size(const struct heap *heap, uint64_t sheaf)
{
    uint64_t size;

    if (sheaf < heap->begin || sheaf >= heap->end ||
        !view_read(&heap->view, heap->target, sheaf, VIEW_sheaf_size, &size))
        return 0;
    return slots_most(heap, size);
}

static void slots_read_main(const struct heap *heap, struct view_part slot, struct slots_one *one)
{
    const struct view *v = &heap->view;
    uint64_t begin = view_get(v, slot, VIEW_slot_begin), top = view_get(v, slot, VIEW_slot_top);

    if (begin) {
        one->main = begin - view_value(v, VIEW_sheaf_object);
        one->size = top > begin ? slots_most(heap, (top - begin) / 8) : 0;
    }
}

/* False: it is closed for the moment, or cannot be read. */
static bool slots_read(const struct heap *heap, const struct heap_cache *cache, unsigned cpu,
                       struct slots_one *one)
{
    const struct view *v = &heap->view;
    struct view_part slot = {0};
    char room[256];

    *one = (struct slots_one){0};
    if (cpu < heap->rows && heap->used[cpu] && cache->index < heap->slots)
        slot = view_copy(heap->target, slots_address(heap, cache->index, cpu),
                         view_size(v, VIEW_slot), room);
    if (slot.size == 0 || view_get(v, slot, VIEW_slot_begin) == UINT64_MAX)
        return false;
    slots_read_main(heap, slot, one);
    one->spare = view_get(v, slot, VIEW_slot_spare);
    one->rcu = view_get(v, slot, VIEW_slot_rcu);
    one->remote = view_get(v, slot, VIEW_slot_remote);
    return true;
}

struct heap_cpu heap_cpu(const struct heap *heap, const struct heap_cache *cache, unsigned cpu)
{
    struct heap_cpu n = {0};
    struct slots_one one;

    if (!slots_read(heap, cache, cpu, &one))
        return n;
    if (one.main) {
        n.objects += one.size;
        n.sheaves++;
    }
    if (one.spare) {
        n.objects += slots_size(heap, one.spare);
        n.sheaves++;
    }
    n.sheaves += one.remote != 0;
    for (unsigned i = 0; one.remote && i < heap->nodes; i++) {
        n.remote += slots_size(heap, one.remote);
        if (!view_read(&heap->view, heap->target, one.remote, VIEW_sheaf_next, &one.remote))
            break;
    }
    n.objects += n.remote;
    return n;
}

/* The slots first, then the heads of all their sheaves: a few calls each. */
static void slots_expect(struct heap *heap)
{
    const struct view *v = &heap->view;
    struct slots_one one;

    for (unsigned cpu = 0; cpu < heap->rows; cpu++)
        if (heap->used[cpu])
            target_expect(heap->target, slots_address(heap, 0, cpu),
                          (uint64_t)heap->slots << view_value(v, VIEW_SLOT_SHIFT));
    for (unsigned cpu = 0; cpu < heap->rows; cpu++)
        for (size_t i = 0; heap->used[cpu] && i < heap->caches; i++) {
            if (!slots_read(heap, &heap->cache[i], cpu, &one))
                continue;
            if (one.main >= heap->begin && one.main < heap->end)
                target_expect(heap->target, one.main, 16);
            if (one.spare >= heap->begin && one.spare < heap->end)
                target_expect(heap->target, one.spare, 16);
        }
}

bool heap_read_slots(struct heap *heap)
{
    slots_expect(heap);
    for (size_t i = 0; i < heap->caches; i++) {
        struct heap_cache *cache = &heap->cache[i];
        for (unsigned cpu = 0; cpu < heap->rows; cpu++) {
            struct heap_cpu n = {0};
            if (heap->used[cpu])
                n = heap_cpu(heap, cache, cpu);
            cache->count.in_sheaves += n.objects;
            cache->count.sheaves += n.sheaves;
        }
    }
    return true;
}

/* ---- the objects in sheaves ------------------------------------------------------------------- */

static void sheaf_add(struct heap *heap, uint64_t object, enum heap_state state, unsigned place)
{
    struct heap_own *own = heap->own;
    struct heap_sheaf_object *more =
        heap_row(heap, own->sheaf_object, own->sheaf_objects, sizeof(*more));

    if (!more)
        return;
    own->sheaf_object = more;
    own->sheaf_object[own->sheaf_objects++] =
        (struct heap_sheaf_object){object, (uint16_t)place, (uint8_t)state};
}

/* The next sheaf of a chain, or 0. */
static uint64_t sheaf_load_some(struct heap *heap, uint64_t sheaf, uint32_t size,
                                enum heap_state state, unsigned place)
{
    const struct view *v = &heap->view;
    uint64_t object[VIEW_SHEAF_MAX], next = 0;

    if (!target_take_some(heap->target, sheaf + view_value(v, VIEW_sheaf_object), object, size))
        return 0;
    for (uint32_t i = 0; i < size; i++)
        sheaf_add(heap, object[i], state, place);
    if (sheaf < heap->begin || sheaf >= heap->end ||
        !view_read(v, heap->target, sheaf, VIEW_sheaf_next, &next))
        return 0;
    return next;
}

static uint64_t sheaf_load(struct heap *heap, uint64_t sheaf, enum heap_state state, unsigned place)
{
    return sheaf_load_some(heap, sheaf, slots_size(heap, sheaf), state, place);
}

static void sheaf_load_main(struct heap *heap, const struct slots_one *one, unsigned cpu)
{
    struct heap_own *own = heap->own;
    uint64_t *more = heap_row(heap, own->main, own->mains, sizeof(*more));

    (void)sheaf_load_some(heap, one->main, one->size, HEAP_IN_CPU, cpu);
    if (more) {
        own->main = more;
        own->main[own->mains++] = one->main;
    }
}

static void sheaf_load_chain(struct heap *heap, uint64_t sheaf, enum heap_state state,
                             unsigned place)
{
    for (unsigned n = 0; sheaf && n < 1 << 20; n++)
        sheaf = sheaf_load(heap, sheaf, state, place);
}

static uint64_t sheaf_barn(struct heap *heap, const struct heap_cache *cache, unsigned node)
{
    const struct view *v = &heap->view;
    uint64_t full = 0, barn = cache->address + view_value(v, VIEW_cache_nodes) +
                              (uint64_t)node * view_size(v, VIEW_cache_node) +
                              view_value(v, VIEW_cache_node_barn);

    (void)view_read(v, heap->target, barn, VIEW_barn_full, &full);
    return full;
}

void heap_load_sheaves(struct heap *heap)
{
    struct heap_own *own = heap->own;
    struct slots_one one;

    if (own->sheaves_read)
        return;
    own->sheaves_read = true;
    for (size_t i = 0; i < heap->caches; i++) {
        const struct heap_cache *cache = &heap->cache[i];
        for (unsigned cpu = 0; cpu < heap->rows; cpu++) {
            if (!heap->used[cpu] || !slots_read(heap, cache, cpu, &one))
                continue;
            if (one.main)
                sheaf_load_main(heap, &one, cpu);
            (void)sheaf_load(heap, one.spare, HEAP_IN_CPU, cpu);
            (void)sheaf_load(heap, one.rcu, HEAP_IN_RCU, cpu);
            sheaf_load_chain(heap, one.remote, HEAP_IN_CPU, cpu);
        }
        for (unsigned node = 0; node < heap->nodes; node++)
            sheaf_load_chain(heap, sheaf_barn(heap, cache, node), HEAP_IN_BARN, node);
    }
    if (own->sheaf_objects > 0)
        qsort(own->sheaf_object, own->sheaf_objects, sizeof(*own->sheaf_object), target_by_number);
    if (own->mains > 0)
        qsort(own->main, own->mains, sizeof(*own->main), target_by_number);
}

bool heap_is_main(struct heap *heap, uint64_t sheaf)
{
    heap_load_sheaves(heap);
    return heap->own->mains > 0 &&
           bsearch(&sheaf, heap->own->main, heap->own->mains, sizeof(sheaf), target_by_number);
}

const struct heap_sheaf_object *heap_in_sheaf(struct heap *heap, uint64_t object)
{
    struct heap_sheaf_object key = {.address = object};

    heap_load_sheaves(heap);
    return heap->own->sheaf_objects == 0
               ? NULL
               : bsearch(&key, heap->own->sheaf_object, heap->own->sheaf_objects, sizeof(key),
                         target_by_number);
}

void heap_forget_sheaves(struct heap *heap)
{
    free(heap->own->sheaf_object);
    free(heap->own->main);
    heap->own->sheaf_object = NULL;
    heap->own->main = NULL;
    heap->own->sheaf_objects = heap->own->mains = 0;
    heap->own->sheaves_read = false;
}
