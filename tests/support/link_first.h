/* SPDX-License-Identifier: MIT */
/*
 * link_first.h - a cache whose new slabs are linked whole and then drained (slab/link_first.h).
 */
#ifndef TESTS_SUPPORT_LINK_FIRST_H
#define TESTS_SUPPORT_LINK_FIRST_H

#include "base/context.h"
#include "base/init.h"
#include "cache/cache_list.h"

#include <stook/stook.h>

static struct stook_cache *link_first_cache(const char *name, size_t size)
{
    struct stook_cache_args args = {.align = 16,
                                    .flags = STOOK_CACHE_LINK_INSIDE | CACHE_LINK_FIRST};
    struct stook_cache *cache;

    init_once();
    context_enter();
    lock_take(&cache_list.lock, LOCK_CACHES);
    cache = cache_make(name, size, &args);
    lock_drop(&cache_list.lock, LOCK_CACHES);
    context_leave();
    return cache;
}

#endif
