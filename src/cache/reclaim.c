/* SPDX-License-Identifier: MIT */
/*
 * reclaim.c - returns the library's own unused memory in steps, then runs the program's callbacks.
 */
#include "cache/reclaim.h"

#include "base/context.h"
#include "base/hooks.h"
#include "base/probe.h"
#include "cache/cache_list.h"
#include "cache/pin.h"
#include "os/topology.h"
#include "page/arena.h"
#include "sheaf/slot.h"
#include "slab/node.h"

#include <errno.h>

enum {
    RECLAIM_CHUNK = 1u << 16,  /* objects taken by one call */
    RECLAIM_FORK_TURNS = 4096, /* of a wait for a fork: half a second or so */
};

__thread unsigned reclaim_inside;

/* ---- the library's own ---------------------------------------------------------------------- */

static bool reclaim_has_slabs(const struct stook_cache *cache)
{
    for (unsigned i = 0; i < topology.nodes; i++)
        if (__atomic_load_n(&cache->nodes[i].node.made, __ATOMIC_RELAXED) >
            __atomic_load_n(&cache->nodes[i].node.gone, __ATOMIC_RELAXED))
            return true;
    return false;
}

/* Destructors may run. */
static bool reclaim_drain(struct stook_cache *cache, void *near)
{
    if (reclaim_has_slabs(cache) && *(bool *)near)
        cache_drain_near(cache);
    else if (reclaim_has_slabs(cache))
        (void)cache_drain(&cache, 1, false);
    return true;
}

/*
 * A fork has the locks that draining takes, and what it set aside is used up.  malloc has other memory.
 * Other callers wait for a bounded time, since the fork may wait for this thread.  True: nothing else helps.
 */
static bool reclaim_forked(const struct stook_cache *cache, bool (*attempt)(void *arg), void *arg,
                           bool *done)
{
    *done = false;
    for (unsigned turn = 0; !(cache->flags & CACHE_MALLOC) && turn < RECLAIM_FORK_TURNS; turn++) {
        lock_pause(turn);
        if (!lock_forked())
            return false;
        context_enter();
        *done = attempt(arg);
        context_leave();
        if (*done)
            return true;
    }
    return true;
}

static bool reclaim_own(struct stook_cache *cache, bool (*attempt)(void *arg), void *arg)
{
    /* malloc asks the kernel for nothing but memory: other CPUs keep what they have. */
    bool near = cache->flags & CACHE_MALLOC, done;

    while (!lock_begin_blocking())
        if (reclaim_forked(cache, attempt, arg, &done))
            return done;
    reclaim_inside = RECLAIM_DRAINING; /* constructors and destructors may allocate */
    context_enter();
    (void)reclaim_drain(cache, &near);
    done = attempt(arg);
    if (!done && node_may_grow(cache)) { /* else other caches' memory is of no use to it */
        pin_each(reclaim_drain, &near);  /* the caches of sheaves last, which are the oldest */
        done = attempt(arg);
    }
    context_leave();
    reclaim_inside = 0;
    lock_end_blocking();
    return done;
}

bool reclaim_until(struct stook_cache *cache, size_t wanted, bool (*attempt)(void *arg), void *arg)
{
    bool done, any;

    PROBE2(reclaim_begin, &cache->name[0], wanted);
    done = reclaim_own(cache, attempt, arg);
    for (int round = 0; !done && hooks.reclaim && !lock_forked() && round < RECLAIM_ROUNDS;
         round++) {
        size_t gave = hooks.reclaim(wanted, &any);
        if (!any)
            break;
        done = reclaim_own(cache, attempt, arg);
        if (gave == 0)
            break;
    }
    PROBE2(reclaim_end, &cache->name[0], done);
    if (!done)
        errno = ENOMEM;
    return done;
}

/* ---- objects -------------------------------------------------------------------------------- */

struct reclaim_objects {
    struct stook_cache *cache;
    void **objects;
    size_t n, got;
};

static bool reclaim_take(void *arg)
{
    struct reclaim_objects *take = arg;
    uint32_t more;

    do {
        size_t left = take->n - take->got;
        more = slot_alloc(take->cache, take->objects + take->got,
                          left < RECLAIM_CHUNK ? (uint32_t)left : RECLAIM_CHUNK, false);
        take->got += more;
    } while (more > 0 && take->got < take->n);
    return take->got == take->n;
}

/* What n objects need at least: whole slabs. */
static size_t reclaim_wanted(const struct stook_cache *cache, size_t n)
{
    size_t slabs = n / cache->layout.objects + (n % cache->layout.objects != 0);
    size_t slab = (size_t)PAGE_SIZE << cache->layout.order;

    return slabs < SIZE_MAX / slab ? slabs * slab : SIZE_MAX;
}

size_t reclaim_alloc(struct stook_cache *cache, void **objects, size_t n)
{
    struct reclaim_objects take = {cache, objects, n, 0};

    (void)reclaim_until(cache, reclaim_wanted(cache, n), reclaim_take, &take);
    return take.got;
}

size_t stook_cache_shrink(struct stook_cache *cache)
{
    size_t bytes;

    if (!pin_alive(cache))
        return 0;
    context_enter();
    bytes = cache_drain(&cache, 1, false);
    (void)arena_trim();
    context_leave();
    return bytes;
}
