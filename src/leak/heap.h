/* SPDX-License-Identifier: MIT */
/*
 * heap.h - which objects of a heap can be reached: a conservative marking over tables, which knows nothing of the
 * library that made the objects.
 *
 * leak/inventory.c fills the tables from this process, and leak/roots.c feeds in what the program has elsewhere.
 * Memory is read through a reader, so that the same marking serves the heap of another process.
 *
 *   a word that is the start of a live object      that object is reached, and its contents are read
 *   a word that lies within one                    the object is only possibly in use
 *
 * Words lie at multiples of 8.  One thread at a time; no locks, no memory but the tables.
 */
#ifndef STOOK_LEAK_HEAP_H
#define STOOK_LEAK_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { HEAP_PAGE_SHIFT = 12, HEAP_CHUNK = 1 << 16 };

/* Of an object, in heap.state. */
enum heap_state {
    HEAP_LIVE = 1,     /* a user has it */
    HEAP_REACHED = 2,  /* by words that are starts, from the roots on */
    HEAP_INSIDE = 4,   /* what is reached has a word that lies within it */
    HEAP_POSSIBLE = 8, /* by way of such a word only */
    HEAP_POINTED = 16, /* lost, and another lost object points to it */
    HEAP_HEAD =
        32, /* lost, and counted as such: nothing points to it, or it is the first of a ring */
    HEAP_BEHIND = 64, /* lost, and reached from a head */
};

enum heap_kind { HEAP_LOST, HEAP_LOST_BEHIND, HEAP_PERHAPS, HEAP_IN_REACH, HEAP_KINDS };

/* Objects of one size that follow each other: those of a slab, or a large one. */
struct heap_run {
    uint64_t start, stride;
    uint64_t size; /* of an object, what its user may write to */
    uint32_t objects;
    uint32_t first; /* number of its first object */
    const void *of; /* whose it is; NULL: a large object */
};

/* Reads `size` bytes, HEAP_CHUNK at most: where they lie, in `buffer` or elsewhere; NULL: they cannot be read. */
struct heap_reader {
    const void *(*view)(void *context, uint64_t address, size_t size, void *buffer);
    void *context;
};

struct heap {
    struct heap_reader reader;
    uint64_t begin, end;  /* where objects lie */
    uint32_t *page;       /* a page of that range: 1 + its run; 0: none */
    struct heap_run *run; /* in order of address */
    uint32_t runs, objects;
    uint8_t *state;   /* an object: enum heap_state */
    uint32_t *work;   /* objects whose contents are still to be read */
    uint32_t working; /* how many */
    void *buffer;     /* of HEAP_CHUNK bytes */
};

/* The object that an address lies in: its number, and how far into it; false: in none. */
bool heap_find(const struct heap *heap, uint64_t address, uint32_t *object, uint64_t *inside);
/* Its run: a search. */
const struct heap_run *heap_run_of(const struct heap *heap, uint32_t object);

/* Words of the roots. */
void heap_root(struct heap *heap, const uint64_t *words, size_t n);
/* The same of memory, whole words of it. */
void heap_root_memory(struct heap *heap, uint64_t address, uint64_t size);

/* When all roots were fed in: every live object gets its kind. */
void heap_settle(struct heap *heap);
enum heap_kind heap_kind(uint8_t state);

#endif
