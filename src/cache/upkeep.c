/* SPDX-License-Identifier: MIT */
#include "cache/upkeep.h"

#include "cache/adapt.h"
#include "base/lock.h"
#include "cache/hotplug.h"

#include <errno.h>

enum { UPKEEP_TURNS = 1024 }; /* some 100 ms */

static _Atomic unsigned upkeep_running; /* threads in upkeep_do() */

/* lock_begin_fork() comes before: a thread is counted here, or sees the fork and leaves. */
void upkeep_wait(void)
{
    for (unsigned turn = 0; turn < UPKEEP_TURNS; turn++) {
        if (atomic_load_explicit(&upkeep_running, memory_order_seq_cst) == 0)
            break;
        lock_pause(turn);
    }
}

void upkeep_child(void)
{
    atomic_store_explicit(&upkeep_running, 0, memory_order_relaxed);
}

void upkeep_do(const struct stook_cache *cache)
{
    bool near = cache->flags & CACHE_MALLOC;
    int saved = errno;
    unsigned due;

    if (atomic_load_explicit(&adapt_grown, memory_order_relaxed) == 0)
        context_self()->due &= ~(unsigned)CONTEXT_DUE_CAPACITY;
    due = context_self()->due & (near ? CONTEXT_DUE_CAPACITY : ~0u);
    if (due == 0)
        return;
    /* What follows takes locks that it waits for, a fork's too. */
    atomic_fetch_add_explicit(&upkeep_running, 1, memory_order_seq_cst);
    if (lock_forked()) {
        atomic_fetch_sub_explicit(&upkeep_running, 1, memory_order_seq_cst);
        return;
    }
    context_self()->due &= ~due;
    context_enter();
    if (due & CONTEXT_DUE_SCAN)
        hotplug_scan();
    if (due & CONTEXT_DUE_CAPACITY)
        adapt_look(cache, near);
    context_leave();
    atomic_fetch_sub_explicit(&upkeep_running, 1, memory_order_seq_cst);
    errno = saved;
}
