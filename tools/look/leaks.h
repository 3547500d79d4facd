/* SPDX-License-Identifier: MIT */
/*
 * leaks.h - objects of a target that are in use and that nothing points to.
 *
 * Of a target that stands still, or is a core file, one search finds them.  Of one that runs, each search misses
 * pointers that move meanwhile or are in registers.  There an object is lost if several searches, some time apart,
 * all found it lost, none of its bytes has changed in between, and no other object has taken its place.
 */
#ifndef STOOK_LOOK_LEAKS_H
#define STOOK_LOOK_LEAKS_H

#include "look/heap.h"
#include "look/reach.h"

struct leaks_object {
    uint64_t address, size;
    uint64_t hash;                /* of its contents, and of its owner */
    const struct heap_slab *slab; /* NULL: a large object */
    uint32_t index;
    uint8_t kind; /* enum reach_kind */
};

struct leaks {
    struct leaks_object *object; /* not REACH_IN_REACH unless all are asked for; by address */
    size_t objects;
    struct {
        uint64_t objects, bytes;
    } sum[REACH_KINDS];
    uint64_t unread; /* bytes of mappings that were not read: too large */
    bool all;
};

/* Feeds the registers of all threads. */
typedef void (*leaks_registers)(void *context,
                                void (*fn)(const uint64_t *words, size_t n, void *arg), void *arg);

/* One search over the heap's snapshot; `registers` may be NULL, and `stack` is the main thread's stack pointer, or
 * UINT64_MAX.  False with an error. */
bool leaks_search(struct heap *heap, leaks_registers registers, void *context, uint64_t stack,
                  bool all, struct leaks *leaks, struct target_error *error);
/* What `later` has in common with `before`, into `later`. */
void leaks_common(const struct leaks *before, struct leaks *later);
void leaks_close(struct leaks *leaks);

#endif
