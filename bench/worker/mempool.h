/* SPDX-License-Identifier: MIT */
/*
 * A pool with a reserve over any allocator, as Linux's mempool: an allocation asks the allocator first, and the
 * reserve only if that has nothing.  A free goes to the reserve only while that is short.  A program that must make
 * progress under memory pressure would write such a pool itself.
 */
#ifndef STOOK_BENCH_MEMPOOL_H
#define STOOK_BENCH_MEMPOOL_H

#include <stdatomic.h>

#include "adapter.h"
#include "ring.h"

#if !ADAPTER_HANDOFF_ONLY

#define MEMPOOL_MAX 256

struct mempool {
    adapter_t adapter;
    size_t least;
    _Atomic size_t count; /* objects in the reserve; changes under the lock */
    atomic_flag lock;
    void *reserve[MEMPOOL_MAX];
};

static inline struct mempool *mempool_open(adapter_t adapter, size_t least)
{
    static struct mempool pool = {.lock = ATOMIC_FLAG_INIT};

    pool.adapter = adapter;
    pool.least = least < MEMPOOL_MAX ? least : MEMPOOL_MAX;
    for (size_t i = 0; i < pool.least; i++)
        if (!(pool.reserve[i] = adapter_alloc(adapter)))
            case_die("no memory for a reserve");
    atomic_store(&pool.count, pool.least);
    return &pool;
}

static inline void mempool_lock(struct mempool *pool)
{
    while (atomic_flag_test_and_set_explicit(&pool->lock, memory_order_acquire))
        ring_relax();
}

static inline void mempool_unlock(struct mempool *pool)
{
    atomic_flag_clear_explicit(&pool->lock, memory_order_release);
}

static __attribute__((noinline, cold, unused)) void *mempool_alloc_reserve(struct mempool *pool)
{
    void *object = NULL;

    mempool_lock(pool);
    size_t count = atomic_load_explicit(&pool->count, memory_order_relaxed);
    if (count > 0) {
        object = pool->reserve[count - 1];
        atomic_store_explicit(&pool->count, count - 1, memory_order_relaxed);
    }
    mempool_unlock(pool);
    return object;
}

/* False: it is not short any more. */
static __attribute__((noinline, cold, unused)) int mempool_free_reserve(struct mempool *pool,
                                                                        void *object)
{
    mempool_lock(pool);
    size_t count = atomic_load_explicit(&pool->count, memory_order_relaxed);
    int is_short = count < pool->least;
    if (is_short) {
        pool->reserve[count] = object;
        atomic_store_explicit(&pool->count, count + 1, memory_order_relaxed);
    }
    mempool_unlock(pool);
    return is_short;
}

static inline __attribute__((always_inline)) void *mempool_alloc(struct mempool *pool)
{
    void *object = adapter_alloc(pool->adapter);
    return __builtin_expect(object != NULL, 1) ? object : mempool_alloc_reserve(pool);
}

static inline __attribute__((always_inline)) void mempool_free(struct mempool *pool, void *object)
{
    atomic_thread_fence(memory_order_acquire);
    if (__builtin_expect(atomic_load_explicit(&pool->count, memory_order_relaxed) < pool->least,
                         0) &&
        mempool_free_reserve(pool, object))
        return;
    adapter_free(pool->adapter, object);
}

#endif
#endif
