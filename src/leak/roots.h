/* SPDX-License-Identifier: MIT */
/*
 * roots.h - the program's memory outside of the heap: data, stacks, thread-local storage, its own mappings.
 *
 * All that is mapped and readable is a root, the pages that were never written left out; but not the window, whose
 * objects are read as they are reached, nor the stack below the caller's frame.
 */
#ifndef STOOK_LEAK_ROOTS_H
#define STOOK_LEAK_ROOTS_H

#include "leak/heap.h"

enum {
    ROOTS_MAPPING_MAX_SHIFT = 36, /* larger mappings, such as a sanitizer's shadow, are not read */
    ROOTS_BELOW = 64 << 10,       /* bytes of stack that the search itself may have used */
};

/* Where not to look, and what was not read. */
struct roots {
    uint64_t stack;                /* of the calling thread: what lies above is read */
    uint64_t skip[2], skip_end[2]; /* the tables, the helper's memory */
    uint64_t unread;               /* bytes of mappings too large */
};

/* A reader of this process. */
struct heap_reader roots_reader(void);

/* False: /proc cannot be read. */
bool roots_read(struct heap *heap, struct roots *roots);

#endif
