/* SPDX-License-Identifier: MIT */
/*
 * budget.c - grants bytes to barns and to adaptive caches, from the cache's budget and the process's.
 */
#include "sheaf/budget.h"

#include "page/arena.h"

struct budget budget;

static bool budget_add(_Atomic size_t *granted, size_t max, size_t bytes)
{
    size_t now = atomic_load_explicit(granted, memory_order_relaxed);

    do {
        if (now > max || bytes > max - now)
            return false;
    } while (!atomic_compare_exchange_weak(granted, &now, now + bytes));
    return true;
}

/* A counter of granted bytes, and what it may become. */
struct bound {
    _Atomic size_t *granted;
    size_t max;
};

/* The counters that a cache's bytes are in; how many. */
static unsigned budget_bounds(struct stook_cache *cache, struct bound bounds[3])
{
    size_t share = arena_used() / BUDGET_MALLOC_SHARE;
    unsigned n = 0;

    bounds[n++] = (struct bound){&cache->policy.cached, cache->policy.cached_max};
    if (cache->flags & CACHE_MALLOC) /* many: together they have a budget that follows the heap */
        bounds[n++] =
            (struct bound){&budget.malloc_granted, share > BUDGET_MALLOC ? share : BUDGET_MALLOC};
    bounds[n++] = (struct bound){&budget.granted, atomic_load(&budget.max)};
    return n;
}

bool budget_take(struct stook_cache *cache, size_t bytes)
{
    struct bound bounds[3];
    unsigned n = budget_bounds(cache, bounds), taken = 0;

    while (taken < n && budget_add(bounds[taken].granted, bounds[taken].max, bytes))
        taken++;
    /* A lower bound may have come meanwhile: either this thread sees it, or the thread that set it sees this. */
    if (taken == n && atomic_load(&budget.granted) <= atomic_load(&budget.max))
        return true;
    while (taken > 0)
        atomic_fetch_sub(bounds[--taken].granted, bytes);
    return false;
}

void budget_give(struct stook_cache *cache, size_t bytes)
{
    struct bound bounds[3];
    unsigned n = budget_bounds(cache, bounds);

    while (n > 0)
        atomic_fetch_sub(bounds[--n].granted, bytes);
}

bool budget_take_barn(struct stook_cache *cache, struct barn *barn, size_t bytes)
{
    size_t lacking, step;

    if (barn->bytes + bytes <= barn->granted)
        return true;
    lacking = barn->bytes + bytes - barn->granted;
    step = lacking > BUDGET_STEP ? lacking : BUDGET_STEP;
    if (!budget_take(cache, step)) {
        step = lacking;
        if (!budget_take(cache, step))
            return false;
    }
    __atomic_store_n(&barn->granted, barn->granted + step, __ATOMIC_RELAXED);
    return true;
}

void budget_give_barn(struct stook_cache *cache, struct barn *barn)
{
    if (barn->granted > barn->bytes) {
        budget_give(cache, barn->granted - barn->bytes);
        __atomic_store_n(&barn->granted, barn->bytes, __ATOMIC_RELAXED);
    }
}
