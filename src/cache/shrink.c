/* SPDX-License-Identifier: MIT */
/*
 * shrink.c - the public call that returns a cache's free objects and empty slabs.
 */
#include "base/context.h"
#include "cache/cache_list.h"
#include "page/arena.h"

size_t stook_cache_shrink(struct stook_cache *cache)
{
    size_t bytes;

    context_enter();
    bytes = cache_drain(cache, false);
    (void)arena_trim();
    context_leave();
    return bytes;
}
