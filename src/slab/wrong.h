/* SPDX-License-Identifier: MIT */
/*
 * wrong.h - what slabs find wrong, on its way to a report: hooks.report, or one line where the core is all
 * there is.
 *
 * What is asked of an object that is freed, by which function, and why by that one.  No other one asks.
 *
 *   it is foreign, of another cache,   slab_of() (slab.h)              an entry of the page map answers all three, and gives
 *   or it is not an object's start                                    slab and index, which the caller keeps
 *   it is free in its slab             mark_check() (mark.h)          each object has a mark, which only slabs write
 *   it is free on top of main          slot_is_free() (slot_free.c)   objects in a sheaf have no mark; the slot is closed anyway
 *   malloc has freed it                stook_private_freed() (kmalloc/private.c)   the object has malloc's mark
 *   it is held back, or being debugged   harden/quarantine.c, debug/object.c       a word an object says where it is
 *   more come back than are in use     node_pushed() (node_steps.h)   two threads free one object at the same instant
 *   a link leads out of its slab       slab_follow() (slab.h)         a write to a free object
 *
 * The first two are asked at two places: at the door, of an object that comes by itself and that no section took, and of
 * all objects of caches whose frees are checked (free_checks()); and at the slab (node_put.c, detached.c), of every object, since a section
 * takes any pointer.  Filters, which take the slow path where they are not sure, report nothing: malloc's fast path, stook_free_rcu(),
 * accounted_free().
 *
 * Each report returns if the program goes on (STOOK_ON_CORRUPTION).  Then the caller refuses the free or ends the list:
 * no object is handed out twice, and what is lost stays out of use.
 */
#ifndef STOOK_SLAB_WRONG_H
#define STOOK_SLAB_WRONG_H

#include "base/finding.h"

#include <stdbool.h>

/* Reports; `where`, slab and object are filled in by the caller as far as they are known. */
void wrong_found(const struct debug_finding *finding);

/* A pointer that was freed to `cache` and is none of its objects, or is free already. */
void wrong_free(const struct stook_cache *cache, const void *pointer, enum debug_what what);
/* An object came back and is not marked out. */
void wrong_mark(const struct stook_cache *cache, const struct slab *slab, uint32_t index);
/* A link of a freelist: SLAB_NONE where one more object must follow. */
void wrong_link(const struct stook_cache *cache, const struct slab *slab, uint32_t index,
                uint32_t next, uint32_t objects);
/* `count` objects come back to a slab that has fewer in use: two threads freed one at the same instant. */
_Noreturn void wrong_count(const struct stook_cache *cache, const struct slab *slab, uint32_t head,
                           uint32_t inuse, uint32_t count);

/* The object of a slab that a pointer lies in: its slab and index; false: in none. */
bool wrong_place(const void *pointer, const struct slab **slab, uint32_t *index);

#endif
