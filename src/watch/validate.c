/* SPDX-License-Identifier: MIT */
/*
 * validate.c - the checks of whole caches, on request.
 */
#include "base/context.h"
#include "cache/pin.h"
#include "debug/slabs.h"

#include <stook/stook.h>

#include <errno.h>

static int validate_add(struct stook_cache *cache, void *arg)
{
    long errors = stook_cache_validate(cache);

    if (errors > 0)
        *(long *)arg += errors;
    return 0;
}

long stook_cache_validate(struct stook_cache *cache)
{
    long errors = 0;

    if (!cache)
        return stook_cache_each(validate_add, &errors) == 0 ? errors : -1;
    if (!pin_alive(cache))
        return -1;
    if (context_enter()) {
        context_leave();
        errno = EDEADLK;
        return -1;
    }
    errors = (long)slabs_validate(cache);
    context_leave();
    return errors;
}
