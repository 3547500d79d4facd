/* SPDX-License-Identifier: MIT */
/*
 * What link-first costs at least: a bare array that is cut into chunks as large as Stook's slabs for
 * that size. Of each chunk a freelist is built in its objects, in order of address or of a random
 * permutation from a random start, and then drained; a free links the object to one list. No slabs are
 * found, nothing is checked, counted or locked, and when all objects are back the array is new again.
 */
#include <stook/stook.h>

#include "../worker/random.h"
#include "../worker/resident.h"
#include "stook_reserve.h"

#undef ADAPTER_LIMIT /* the array is always there */
#define ADAPTER_BULK 1
#define ADAPTER_OPENS_AS 1

struct floor_link {
    void *head;        /* of the chunk that is being drained */
    void *freed;       /* all that came back */
    char *next;        /* chunk to be linked */
    char *first, *end; /* of the array */
    size_t chunk;      /* bytes */
    size_t stride;     /* bytes */
    uint32_t objects;  /* a chunk */
    uint32_t
        *permuted; /* offsets of a chunk's objects in random order; NULL: in order of address */
    size_t out;    /* objects handed out */
    struct random random;
};

typedef struct floor_link *adapter_t;

static inline adapter_t adapter_open_as(const struct case_params *params, size_t count)
{
    static struct floor_link floor = {.random = {2}};
    struct stook_cache *cache = stook_cache_create("floor-link", params->object_size, NULL);
    void *object = cache ? stook_alloc(cache, 0) : NULL;

    if (!object)
        case_die("no cache to learn the size of a slab from");
    floor.stride = (size_t)adapter_report_number("\"name\": \"floor-link\"", "\"stride\":");
    floor.objects =
        (uint32_t)adapter_report_number("\"name\": \"floor-link\"", "\"objects_per_slab\":");
    floor.chunk = (size_t)4096 << adapter_report_number("\"name\": \"floor-link\"", "\"order\":");
    stook_free(cache, object);
    (void)stook_cache_destroy(cache);

    size_t size = (count / floor.objects + 1) * floor.chunk;
    floor.first = floor.next = resident_map_huge(size);
    floor.end = floor.first + size;
    if (params->order == ORDER_RANDOM) {
        floor.permuted = resident_map(floor.objects * sizeof(*floor.permuted));
        for (uint32_t i = 0; i < floor.objects; i++) {
            uint32_t at = random_below(&floor.random, i + 1);
            floor.permuted[i] = floor.permuted[at];
            floor.permuted[at] = i * (uint32_t)floor.stride;
        }
    }
    return &floor;
}

static inline adapter_t adapter_open(size_t object_size)
{
    struct case_params params = {.object_size = object_size};
    return adapter_open_as(&params, 1000);
}

static __attribute__((noinline, unused)) void *floor_link_build(struct floor_link *floor)
{
    char *chunk = floor->next;
    uint32_t objects = floor->objects;

    if (chunk == floor->end)
        case_die("the bare array is used up");
    floor->next += floor->chunk;
    if (!floor->permuted) {
        size_t stride = floor->stride;
        char *object = chunk;
        for (uint32_t i = 1; i < objects; i++, object += stride)
            *(void **)object = object + stride;
        *(void **)object = NULL;
        return chunk;
    }
    uint32_t at = random_below(&floor->random, objects);
    void *head = chunk + floor->permuted[at];
    void **link = head;
    for (uint32_t i = 1; i < objects; i++) {
        at = at + 1 < objects ? at + 1 : 0;
        void *object = chunk + floor->permuted[at];
        *link = object;
        link = object;
    }
    *link = NULL;
    return head;
}

static inline size_t adapter_alloc_bulk(adapter_t floor, void **objects, size_t n)
{
    void *head = floor->head;
    for (size_t i = 0; i < n; i++) {
        if (!head)
            head = floor_link_build(floor);
        objects[i] = head;
        head = *(void **)head;
    }
    floor->head = head;
    floor->out += n;
    return n;
}

static inline void adapter_free_bulk(adapter_t floor, void **objects, size_t n)
{
    void *freed = floor->freed;
    for (size_t i = 0; i < n; i++) {
        *(void **)objects[i] = freed;
        freed = objects[i];
    }
    floor->freed = freed;
    floor->out -= n;
    if (!floor->out) {
        floor->head = NULL;
        floor->next = floor->first;
    }
}

static inline void *adapter_alloc(adapter_t floor)
{
    void *object;
    adapter_alloc_bulk(floor, &object, 1);
    return object;
}

static inline void adapter_free(adapter_t floor, void *object)
{
    adapter_free_bulk(floor, &object, 1);
}

static inline void adapter_check(void)
{
}
