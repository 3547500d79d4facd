/* SPDX-License-Identifier: MIT */
/*
 * wrong.h - what slabs find wrong, on its way to a report: hooks.report, or one line where the core is all
 * there is.
 *
 * Each returns if the program goes on (STOOK_ON_CORRUPTION).  Then the caller refuses the free or ends the list:
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
