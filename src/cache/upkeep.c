/* SPDX-License-Identifier: MIT */
#include "cache/upkeep.h"

#include "cache/adapt.h"
#include "cache/hotplug.h"

#include <errno.h>

void upkeep_do(const struct stook_cache *cache)
{
    unsigned due = context_self()->due;
    int saved = errno;

    context_self()->due = 0;
    context_enter();
    if (due & CONTEXT_DUE_SCAN)
        hotplug_scan();
    if (due & CONTEXT_DUE_CAPACITY)
        adapt_look(cache);
    context_leave();
    errno = saved;
}
