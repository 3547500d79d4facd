/* SPDX-License-Identifier: MIT */
/*
 * Stook's typed caches, through calls of the library or, with STOOK_CACHE_INLINE, through the
 * inlined fast path.
 */
#include <stook/stook.h>
#ifdef STOOK_CACHE_INLINE
#include <stook/inline.h>
#endif

#include "stook_reserve.h"

typedef struct stook_cache *adapter_t;

static inline adapter_t adapter_open(size_t object_size)
{
    struct stook_cache *cache = stook_cache_create("bench", object_size, NULL);
    if (!cache)
        case_die("stook_cache_create failed");
    return cache;
}

static inline void *adapter_alloc(adapter_t cache)
{
#ifdef STOOK_CACHE_INLINE
    return stook_alloc_inline(cache, 0);
#else
    return stook_alloc(cache, 0);
#endif
}

static inline void adapter_free(adapter_t cache, void *object)
{
#ifdef STOOK_CACHE_INLINE
    stook_free_inline(cache, object);
#else
    stook_free(cache, object);
#endif
}

static inline void adapter_check(void)
{
}
