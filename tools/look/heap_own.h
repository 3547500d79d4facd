/* SPDX-License-Identifier: MIT */
/*
 * heap_own.h - between the files of heap.h.
 */
#ifndef STOOK_LOOK_HEAP_OWN_H
#define STOOK_LOOK_HEAP_OWN_H

#include "look/heap.h"

enum {
    HEAP_CACHE_ROOM = 128 << 10, /* of a struct stook_cache with all its nodes */
    HEAP_ORDER_MAX = 11,         /* of a slab: four blocks */
};

/* An object in a sheaf, and whose. */
struct heap_sheaf_object {
    uint64_t address;
    uint16_t place; /* the CPU, or the node */
    uint8_t state;  /* enum heap_state */
};

struct heap_own {
    uint64_t entry, meta, header, zone, areas;
    unsigned zones;
    uint64_t table[VIEW_CACHES];
    char copy[HEAP_CACHE_ROOM];
    /* Of all caches, in the order of addresses; read when they are first asked for. */
    struct heap_sheaf_object *sheaf_object;
    size_t sheaf_objects;
    /* The main sheaves of all CPUs, in that order. */
    uint64_t *main;
    size_t mains;
    bool sheaves_read;
};

/* Room for one more of n rows of `size` bytes, of the target's budget; NULL: it is used up, and the rows stay. */
void *heap_row(struct heap *heap, void *rows, size_t n, size_t size);

/* heap_slots.c: what CPUs have in their sheaves, into the counts. */
bool heap_read_slots(struct heap *heap);
void heap_forget_sheaves(struct heap *heap);
/* The objects in sheaves. */
void heap_load_sheaves(struct heap *heap);
/* Whether a slot is open with that main sheaf, which does not say its size then. */
bool heap_is_main(struct heap *heap, uint64_t sheaf);
const struct heap_sheaf_object *heap_in_sheaf(struct heap *heap, uint64_t object);

/* heap_slabs.c: slabs and large objects from the page map. */
bool heap_read_slabs(struct heap *heap);

/* heap_samples.c: the table of sampled call stacks, whose numbers are tags with HEAP_SAMPLED. */
bool heap_each_sample(struct heap *heap, void (*fn)(const struct heap_tag *tag, void *arg),
                      void *arg);
bool heap_sample_site(struct heap *heap, uint32_t number, struct heap_site *site);
/* What is known of an object of a shadow cache, whose element lies at `at`. */
void heap_sample_describe(struct heap *heap, uint64_t at, struct heap_what *what);

/* heap_rest.c: large objects' counts, the arena, groups. */
bool heap_read_rest(struct heap *heap);

#endif
