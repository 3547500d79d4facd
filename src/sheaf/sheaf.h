/* SPDX-License-Identifier: MIT */
/*
 * sheaf.h - an array of object pointers with a size and a capacity (struct sheaf: os/percpu.h).
 * Sheaves come from caches of the library's own, which have no sheaves themselves.
 */
#ifndef STOOK_SHEAF_SHEAF_H
#define STOOK_SHEAF_SHEAF_H

#include "os/percpu.h"
#include "slab/cache.h"

enum { SHEAF_CLASSES = 9 };
/* Bytes of each class: whole cache lines, for 6, 14, 22, 38, 70, 134, 254, 510 and 1022
 * objects. */
extern const uint16_t sheaf_class_size[SHEAF_CLASSES] __attribute__((visibility("hidden")));

/* One cache a size class of sheaves; set by cache_boot() before the first sheaf. */
extern struct stook_cache *sheaf_cache[SHEAF_CLASSES] __attribute__((visibility("hidden")));

/* An empty sheaf with memory near `node`, or NULL; errno is kept. */
struct sheaf *sheaf_alloc(unsigned capacity, unsigned node, bool nospin);
/*
 * The same with room for more objects than its capacity: whoever owns it may fill it with up to
 * `room`; pushes stop at the capacity, so it comes down to it by itself.
 */
struct sheaf *sheaf_alloc_over(unsigned capacity, unsigned room, unsigned node, bool nospin);
/* Objects it has room for, and whether that is more than its capacity asks for. */
unsigned sheaf_room(const struct sheaf *sheaf);
bool sheaf_is_over(const struct sheaf *sheaf);
/* An empty sheaf. */
void sheaf_free(struct sheaf *sheaf, bool nospin);
/* Its objects go back to their slabs; it is empty afterwards. */
void sheaf_flush(struct stook_cache *cache, struct sheaf *sheaf, bool nospin);

#endif
