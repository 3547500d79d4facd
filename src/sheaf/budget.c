/* SPDX-License-Identifier: MIT */
/*
 * budget.c - grants bytes to barns and to adaptive caches, from the cache's budget and the process's.
 */
#include "sheaf/budget.h"

#include "base/settings.h"
#include "page/arena.h"

struct budget budget;

void budget_init(void)
{
    atomic_store_explicit(&budget.max, setting_number(SETTING_CACHED_MAX), memory_order_relaxed);
}

static bool budget_add(_Atomic size_t *granted, size_t max, size_t bytes)
{
    size_t now = atomic_load_explicit(granted, memory_order_relaxed);

    do {
        if (now > max || bytes > max - now)
            return false;
    } while (!atomic_compare_exchange_weak(granted, &now, now + bytes));
    return true;
}

/* Malloc's classes are many: together they have a budget that follows the heap. */
static size_t budget_malloc_max(void)
{
    size_t share = arena_used() / BUDGET_MALLOC_SHARE;

    return share > BUDGET_MALLOC ? share : BUDGET_MALLOC;
}

static bool budget_take_malloc(struct stook_cache *cache, size_t bytes)
{
    return !(cache->flags & CACHE_MALLOC) ||
           budget_add(&budget.malloc_granted, budget_malloc_max(), bytes);
}

static void budget_give_malloc(struct stook_cache *cache, size_t bytes)
{
    if (cache->flags & CACHE_MALLOC)
        atomic_fetch_sub(&budget.malloc_granted, bytes);
}

bool budget_take(struct stook_cache *cache, size_t bytes)
{
    if (!budget_add(&cache->policy.cached, cache->policy.cached_max, bytes))
        return false;
    if (!budget_take_malloc(cache, bytes)) {
        atomic_fetch_sub(&cache->policy.cached, bytes);
        return false;
    }
    if (budget_add(&budget.granted, atomic_load(&budget.max), bytes)) {
        /* A lower bound may have come meanwhile: either this thread sees it, or the thread that set it sees this. */
        if (atomic_load(&budget.granted) <= atomic_load(&budget.max))
            return true;
        atomic_fetch_sub(&budget.granted, bytes);
    }
    budget_give_malloc(cache, bytes);
    atomic_fetch_sub(&cache->policy.cached, bytes);
    return false;
}

void budget_give(struct stook_cache *cache, size_t bytes)
{
    atomic_fetch_sub(&budget.granted, bytes);
    budget_give_malloc(cache, bytes);
    atomic_fetch_sub(&cache->policy.cached, bytes);
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
