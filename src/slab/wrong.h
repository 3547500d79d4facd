/* SPDX-License-Identifier: MIT */
/*
 * wrong.h - what slabs find wrong, on its way to a report: hooks.report, or one line where the core is all
 * there is.
 *
 * Checks of an object that is freed.  Each has one function, and no other one reports the same.
 *
 *   foreign; of another cache;          slab_of() (slab.h)               one entry of the page map answers all three, and gives
 *   not the start of an object                                           the slab and the index, which the caller keeps
 *   free in its slab                    mark_check() (mark.h)            each object has a mark, which only slabs write
 *   free on top of main                 slot_free_turn() (slot_free.c)   objects in a sheaf have no mark; the slot is closed anyway
 *   freed by malloc                     stook_private_freed() (kmalloc/private.c)   malloc writes a mark into the object
 *   held back, or of a debug cache      harden/quarantine.c, debug/object.c         a word an object says where it is
 *   more come back than are in use      node_pushed() (node_steps.h)     two threads free one object at the same instant
 *   a link leads out of its slab        slab_follow() (slab.h)           a write to a free object
 *
 * The first two are called at two places.  free_checks() (cache/free.c) is the door: for an object that comes by itself and
 * that no section took, and for all of a cache whose frees are checked.  An object that malloc's fast path found live does
 * not pass it, though its sheaf was full.  node_put() asks of every object that goes to its slab, since a section takes any pointer.
 * Fast paths only filter, and report nothing: malloc's, stook_free_rcu(), accounted_free().
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
