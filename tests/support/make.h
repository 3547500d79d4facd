/* SPDX-License-Identifier: MIT */
/*
 * make.h - a cache with flags, for programs that cannot go on without it.
 */
#ifndef TESTS_SUPPORT_MAKE_H
#define TESTS_SUPPORT_MAKE_H

#include <stook/stook.h>

#include <stdlib.h>

static inline struct stook_cache *make(const char *name, size_t size, unsigned flags)
{
    struct stook_cache_args args = {.size = sizeof(args), .flags = flags};
    struct stook_cache *cache = stook_cache_create(name, size, &args);

    if (!cache)
        abort();
    return cache;
}

#endif
