/* SPDX-License-Identifier: MIT */
/*
 * upkeep.c - does what calls before this one found due, at a place where the kernel may be asked.
 */
#include "cache/upkeep.h"

#include "cache/adapt.h"
#include "base/hooks.h"
#include "base/lock.h"

#include <errno.h>

void upkeep_do(const struct stook_cache *cache)
{
    bool near = cache->flags & CACHE_MALLOC;
    int saved = errno;
    unsigned due;

    if (atomic_load_explicit(&adapt_grown, memory_order_relaxed) == 0)
        context_self()->due &= ~(unsigned)CONTEXT_DUE_CAPACITY;
    due = context_self()->due & (near ? ~(unsigned)CONTEXT_DUE_SCAN : ~0u);
    if (due == 0 || !lock_begin_blocking())
        return;
    context_self()->due &= ~due;
    context_enter();
    if (due & ~(unsigned)CONTEXT_DUE_CAPACITY)
        (void)hooks.due(HOOKS_DUE_UPKEEP, NULL, due);
    if (due & CONTEXT_DUE_CAPACITY)
        adapt_scan(cache, near);
    context_leave();
    lock_end_blocking();
    errno = saved;
}
