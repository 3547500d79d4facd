/* SPDX-License-Identifier: MIT */
/*
 * alone.c - the table of base/hooks.h where the core is all there is: instead of hooks.c.  And the calls
 * by address alone of kmalloc/kmalloc.c, for objects of caches: no other objects exist here.
 */
#include "base/hooks.h"

#include "cache/init.h"
#include "slab/node.h"
#include "slab/slab.h"
#include "slab/wrong.h"

#include <stook/stook.h>

static bool alone_start(enum hooks_start phase, char *const *environment)
{
    (void)environment;
    return phase != HOOKS_START || init_slow();
}

static bool alone_due(enum hooks_due what, void *span, size_t blocks)
{
    (void)span, (void)blocks;
    if (what == HOOKS_DUE_LEFT)
        node_drain_deferred();
    return true;
}

const struct hooks hooks = {.start = alone_start, .due = alone_due};

static struct stook_cache *alone_cache_of(const void *object)
{
    struct stook_cache *cache = slab_user_cache(object);

    if (!cache)
        wrong_found(&(struct debug_finding){
            .what = DEBUG_FOREIGN, .done = DEBUG_ABORTED, .call = "stook_free_any", .at = object});
    return cache;
}

void stook_free_any(void *object)
{
    if (object)
        stook_free(alone_cache_of(object), object);
}

size_t stook_usable_size(const void *object)
{
    return object ? slab_usable(alone_cache_of(object)) : 0;
}
