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

const struct hooks hooks = {
    .start = init_slow,
    .settle_slabs = node_settle_deferred,
};

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
