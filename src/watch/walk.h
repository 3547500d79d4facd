/* SPDX-License-Identifier: MIT */
/*
 * walk.h - all slabs of a cache, by the page map, and which of their objects are in use or in sheaves.
 *
 * A full slab is on no list, so only the page map has all slabs.  A thread that frees a slab clears its entries first and
 * then takes its zone's lock.  So under that lock a slab that has an entry has its descriptor, too.
 */
#ifndef STOOK_WATCH_WALK_H
#define STOOK_WATCH_WALK_H

#include "slab/slab.h"

/* Where a walk is, and the slab that it has come to. */
struct walk {
    struct stook_cache *cache;
    size_t page; /* the next page to visit, in the window */
    char *base;  /* of the slab: its first object */
    uint32_t objects;
    uint64_t out[(STOOK_SLAB_OBJECTS_MAX + 63) / 64]; /* a bit an object: it is out of its slab */
};

void walk_begin(struct walk *walk, struct stook_cache *cache);

/* The next slab with an object out of it; false: there is none.  Inside the library, without locks. */
bool walk_next(struct walk *walk);

#endif
