/* SPDX-License-Identifier: MIT */
/*
 * adapt.h - adaptive caches that have grown are looked at by others; the budget of all caches.
 */
#ifndef STOOK_CACHE_ADAPT_H
#define STOOK_CACHE_ADAPT_H

#include "slab/cache.h"

/*
 * Looks at the next grown cache that is not `own`.  One whose barns have seen no exchange for two looks
 * idles, and is shrunk; what one that fell by itself still has with CPUs is collected.  `near`: the
 * kernel is asked for nothing, and CPUs keep the sheaves they have.
 */
void adapt_look(const struct stook_cache *own, bool near);

#endif
