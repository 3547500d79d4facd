/* SPDX-License-Identifier: MIT */
/* Stook's typed caches with the fast path inlined into the caller. */
#define STOOK_CACHE_INLINE
#include "stook_cache.h"
