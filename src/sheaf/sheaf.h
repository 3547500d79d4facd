/* SPDX-License-Identifier: MIT */
/*
 * sheaf.h - an array of object pointers with a size and a capacity (struct sheaf: os/percpu.h).
 * Sheaves come from caches of the library's own, which have no sheaves themselves.
 */
#ifndef STOOK_SHEAF_SHEAF_H
#define STOOK_SHEAF_SHEAF_H

#include "os/percpu.h"
#include "slab/cache.h"

enum { SHEAF_CLASSES = 8, SHEAF_CLASS_MIN = 64 }; /* 64 bytes << class, up to 8 KiB */

/* One cache a size class of sheaves; set by cache_boot() before the first sheaf. */
extern struct stook_cache *sheaf_cache[SHEAF_CLASSES] __attribute__((visibility("hidden")));

/* An empty sheaf with memory of `node`, or NULL; errno is kept. */
struct sheaf *sheaf_alloc(unsigned capacity, unsigned node, bool nospin);
/* An empty sheaf. */
void sheaf_free(struct sheaf *sheaf, bool nospin);
/* Its objects go back to their slabs; it is empty afterwards. */
void sheaf_flush(struct stook_cache *cache, struct sheaf *sheaf, bool nospin);

#endif
