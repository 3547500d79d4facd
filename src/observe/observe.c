/* SPDX-License-Identifier: MIT */
/*
 * observe.c - watched objects of caches: the order of checks, charges, samples and traces when they come and go
 * (observe.h).  No lock; charge/account.c has the charges.
 */
#include "observe/observe.h"

#include "base/context.h"
#include "base/placed.h"
#include "cache/cache_list.h"
#include "charge/group.h"
#include "debug/object.h"
#include "guard/guard.h"
#include "harden/quarantine.h"
#include "sample/shadow.h"
#include "sheaf/slot.h"
#include "slab/stat.h"
#include "trace/trace.h"

#include <errno.h>
#include <string.h>

static bool observe_is_watched(const struct stook_cache *cache)
{
    return cache_hooks(cache) & CACHE_CLOSED_WATCHED;
}

/* ---- they come ------------------------------------------------------------------------------------ */

/* Whether an object may be handed out: those of debug and hardened caches are checked. */
static bool observe_take(const struct stook_cache *cache, void *object, uint64_t where)
{
    if (cache->flags & CACHE_DEBUG)
        return debug_take(cache, object, where);
    return !(cache->flags & STOOK_CACHE_QUARANTINE) || quarantine_take(cache, object);
}

/* All of the call's objects, some of them perhaps in the place of others that may not be used; 0: they went back. */
static size_t observe_check(const struct hooks_call *call)
{
    struct stook_cache *cache = call->cache;
    bool all = true, nested;

    for (size_t i = 0; i < call->n; i++) {
        void *object = call->objects[i];
        while (object && !observe_take(cache, object, call->where))
            object = call->node < 0
                         ? alloc_slow(cache, call->flags)
                         : alloc_from_node(cache, call->flags & ~STOOK_ZERO, (unsigned)call->node);
        call->objects[i] = object;
        all = all && object;
    }
    if (all)
        return call->n;
    if (cache->flags & CACHE_DEBUG)
        debug_free(cache, call->objects, call->n);
    else
        quarantine_check(cache, call->objects, call->n),
            quarantine_fill(cache, call->objects, call->n);
    nested = context_enter();
    for (size_t i = 0; i < call->n; i++)
        if (call->objects[i])
            slot_free(cache, &call->objects[i], 1, nested);
    context_leave();
    errno = ENOMEM;
    return 0;
}

/* How many bytes STOOK_ZERO clears: those that were requested, if the bytes behind them are checked. */
static size_t observe_zeroed(const struct stook_cache *cache, const void *object)
{
    size_t usable = cache->object_size;

    if (cache->flags & CACHE_DEBUG)
        return debug_usable(cache, object);
    if (cache->flags & STOOK_CACHE_QUARANTINE)
        usable = quarantine_usable(cache, object);
    return usable < cache->object_size ? usable : cache->object_size;
}

bool observe_begin(const struct stook_cache *cache, struct account *account, size_t n,
                   unsigned flags, uint64_t where, uint32_t group)
{
    return (!observe_is_watched(cache) || debug_begin(cache, n, where)) &&
           account_begin(cache, account, n, flags, where, group);
}

void observe_end(const struct stook_cache *cache, const struct account *account,
                 void *const *objects, size_t got, size_t n, uint64_t where)
{
    account_end(cache, account, objects, got, n);
    if (where && observe_is_watched(cache) && trace_is_active())
        trace_alloc(cache, objects, got);
}

size_t observe_alloc(const struct hooks_call *call)
{
    struct stook_cache *cache = call->cache;
    struct account account;
    size_t got;

    if (!observe_is_watched(cache))
        return accounted_alloc_more(call);
    if (!bulk_may(cache, call->flags, call->n) ||
        !observe_begin(cache, &account, call->n, call->flags, call->where, call->group))
        return 0;
    got = accounted_take(call);
    if (got > 0 && call->where)
        got = observe_check(call);
    observe_end(cache, &account, call->objects, got, call->n, call->where);
    if (call->where && sample_mean_of(SAMPLE_PROFILE) != 0)
        for (size_t i = 0; i < got; i++)
            shadow_count(cache, call->where, account.group);
    for (size_t i = 0; i < got && (call->flags & STOOK_ZERO); i++)
        memset(call->objects[i], 0, observe_zeroed(cache, call->objects[i]));
    return got;
}

void observe_unreserve(const struct stook_cache *cache, void *object, uint64_t where)
{
    if (cache->flags & CACHE_DEBUG)
        (void)debug_take(cache, object, where);
    else if (cache->flags & STOOK_CACHE_QUARANTINE)
        quarantine_take_reserved(cache, object);
}

void observe_retag(const struct stook_cache *cache, const void *object, uint64_t where)
{
    void *taken = (void *)(uintptr_t)object;

    observe_unreserve(cache, taken, where);
    if (trace_is_active())
        trace_alloc(cache, &taken, 1);
    account_retag(cache, object, where);
}

/* ---- they go -------------------------------------------------------------------------------------- */

static void observe_check_free(const struct stook_cache *cache, void **objects, size_t n)
{
    if (__builtin_expect(cache->flags & CACHE_DEBUG, 0))
        debug_free(cache, objects, n);
    else if (__builtin_expect(cache->flags & CACHE_HARDENED, 0))
        quarantine_check(cache, objects, n);
}

static void observe_gone(const struct stook_cache *cache, void **objects, size_t n)
{
    account_return(cache, objects, n);
    if (cache->flags & CACHE_SHADOW)
        shadow_freed(cache, objects, n);
    if (trace_is_active()) /* pointers that are no objects are NULL by now */
        trace_free(objects, n);
}

void observe_free(struct stook_cache *cache, void **objects, size_t n)
{
    observe_check_free(cache, objects, n);
    observe_gone(cache, objects, n);
    if (__builtin_expect(cache->flags & CACHE_HARDENED, 0))
        quarantine_hold(cache, objects, n);
}

void observe_clear(const struct stook_cache *cache, void **objects, size_t n)
{
    observe_check_free(cache, objects, n);
    observe_gone(cache, objects, n);
    if (__builtin_expect(cache->flags & CACHE_HARDENED, 0))
        quarantine_fill(cache, objects, n);
}

void observe_reserve(const struct stook_cache *cache, void **object)
{
    observe_check_free(cache, object, 1);
    if (*object && !free_checks(cache, *object))
        *object = NULL;
    if (cache->flags & CACHE_HARDENED)
        quarantine_fill(cache, object, 1);
}

void observe_defer(const struct stook_cache *cache, void **object)
{
    if (__builtin_expect(cache->flags & CACHE_DEBUG, 0))
        debug_defer(cache, object);
    else if (__builtin_expect(cache->flags & CACHE_HARDENED, 0))
        quarantine_check(cache, object, 1);
    observe_gone(cache, object, 1);
}

void observe_deferred(const struct stook_cache *cache, void *object)
{
    if (cache->flags & CACHE_DEBUG)
        debug_deferred(cache, object);
    else if (cache->flags & CACHE_HARDENED)
        quarantine_fill(cache, &object, 1);
}

/* ---- they are in use ------------------------------------------------------------------------------- */

size_t observe_usable(const struct stook_cache *cache, const void *object)
{
    if (__builtin_expect(cache->flags & CACHE_SHADOW, 0))
        return shadow_size(cache, object);
    return cache->flags & CACHE_DEBUG ? debug_usable(cache, object)
                                      : quarantine_usable(cache, object);
}

size_t observe_size(const struct stook_cache *cache, const struct slab *slab, uint32_t index,
                    const void *object, bool *start)
{
    bool live = *start;

    if (cache->flags & CACHE_DEBUG) {
        *start = true;
        live = live && debug_is_live(cache, slab, index);
    } else if (live) {
        live = quarantine_is_live(cache, slab, index);
    } else {
        return cache->layout.room;
    }
    return live ? observe_usable(cache, object) : 0;
}

void observe_resize(struct stook_cache *cache, void *object, size_t size)
{
    if (cache->flags & CACHE_DEBUG)
        debug_resize(cache, object, size);
    else if (cache->flags & STOOK_CACHE_QUARANTINE)
        quarantine_resize(cache, object, size);
    if (!(cache->flags & CACHE_MALLOC) || !trace_is_active())
        return;
    trace_free(&object, 1);
    trace_asked(size, 0);
    trace_alloc(cache, &object, 1);
}

bool observe_live(const struct stook_cache *cache, const void *object, const char *call)
{
    return cache->flags & CACHE_DEBUG ? debug_live(cache, object, call)
                                      : quarantine_live(cache, object, call);
}

/* ---- samples and traces ------------------------------------------------------------------------------ */

FIRST_TEXT void observe_cache(struct stook_cache *cache)
{
    bool typed = !(cache->flags & CACHE_SIZED) && sample_mean_of(SAMPLE_PROFILE) != 0;

    if (!(cache->flags & CACHE_INTERNAL))
        stat_close(cache, CACHE_CLOSED_WATCHED,
                   typed || trace_is_active() ||
                       (cache->flags & (CACHE_DEBUG | CACHE_HARDENED | CACHE_SHADOW)));
}

void observe_changed(void)
{
    for (struct list *l = cache_list.all.next; l && l != &cache_list.all; l = l->next)
        observe_cache(LIST_ENTRY(l, struct stook_cache, link));
    accounted_watched((trace_is_active() ? HOOKS_CLOSES_ALL : 0) |
                      (sample_is_on() ? HOOKS_CLOSES_ALLOC : 0));
}

__attribute__((noinline, cold)) void *observe_sample(struct stook_cache *cache, size_t size,
                                                     size_t align, uint64_t where, bool zero)
{
    const struct sample sample = sample_take(size + 1);
    const struct shadow_call call = {size, align, where, group_current(), zero};
    int saved = errno;
    void *object = NULL;

    /* Not in a handler that interrupted the library, nor beside a fork of this thread. */
    if (sample.weight > 0 && context_self()->depth == 0)
        object = sample.line == SAMPLE_PROFILE
                     ? shadow_alloc(cache, &call, sample.weight)
                     : guard_alloc(cache, size, align, where, sample.weight);
    errno = saved;
    return object;
}

void observe_count(struct stook_cache *cache, uint64_t where)
{
    if (sample_mean_of(SAMPLE_PROFILE) != 0 &&
        !observe_is_watched(cache)) /* which counts it itself */
        shadow_count(cache, where, group_current());
}
