/* SPDX-License-Identifier: MIT */
/* topology_cache.h - the cache of a test on a simulated machine, and its objects.  Include it in the one file of a test. */
#ifndef TESTS_SUPPORT_TOPOLOGY_CACHE_H
#define TESTS_SUPPORT_TOPOLOGY_CACHE_H

#include "support/check.h"
#include "support/must.h"

#include <stook/stook.h>
#include <stook/topology.h>

#include <stdlib.h>

enum { CAPACITY = 28, MANY = 40 * CAPACITY };

static struct stook_cache *cache;
static void *objects[MANY];

static bool set(const char *text)
{
    struct stook_cache_args args = {.size = sizeof(args), .sheaf_capacity = CAPACITY};

    if (stook_topology_set(text) != 0)
        return false;
    cache = stook_cache_create("nodes", 320, &args);
    return cache != NULL;
}

static void take(unsigned at, unsigned n)
{
    for (unsigned i = at; i < at + n; i++)
        if (!(objects[i] = stook_alloc(cache, 0)))
            abort();
}

static void give(unsigned at, unsigned n)
{
    for (unsigned i = at; i < at + n; i++)
        stook_free(cache, objects[i]);
}

static int end(void)
{
    check_all(NULL, 0);
    MUST(stook_cache_destroy(cache) == 0);
    check_all(NULL, 0);
    return 0;
}

#endif
