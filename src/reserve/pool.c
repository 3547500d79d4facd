/* SPDX-License-Identifier: MIT */
/*
 * pool.c - stook_pool: a reserve in front of a cache, and threads that wait for its objects.  The protocol of counts,
 * waiters and frees is in pool.h; bag.c uses the same reserve.
 *
 * An allocation tries the cache without reclaim, then the reserve, and waits in the end.  A free fills the reserve
 * first if it is short; else it goes to the cache.
 */
#include "reserve/pool.h"

#include "base/context.h"
#include "base/raw.h"
#include "base/report.h"
#include "observe/observe.h"
#include "cache/init.h"
#include "cache/pin.h"
#include "cache/reclaim.h"
#include "percpu/rows.h"
#include "os/os.h"
#include "sheaf/slot.h"

#include <stook/reserve.h>

#include <errno.h>
#include <string.h>

uint64_t pool_nap = 1000000000u;

#define POOL_SECOND UINT64_C(1000000000)
#define POOL_FOREVER UINT64_MAX /* no deadline */

enum { POOL_BATCH = 64 }; /* objects moved at a time when a reserve is filled */

/* ---- the array ------------------------------------------------------------------------------ */

static _Atomic(void *) *pool_word(struct stook_pool *pool, uint32_t i)
{
    unsigned chunk = i < POOL_FIRST ? 0 : 32 - (unsigned)__builtin_clz(i / POOL_FIRST);
    uint32_t before = chunk == 0 ? 0 : (uint32_t)POOL_FIRST << (chunk - 1);
    _Atomic(void *) *words = atomic_load_explicit(&pool->chunk[chunk], memory_order_acquire);

    return &words[i - before];
}

static uint32_t pool_chunk_words(unsigned chunk)
{
    return chunk == 0 ? POOL_FIRST : (uint32_t)POOL_FIRST << (chunk - 1);
}

/* Extends the array to at least that many words; false: out of memory. */
static bool pool_extend(struct stook_pool *pool, uint32_t wanted)
{
    for (;;) {
        uint32_t words = atomic_load_explicit(&pool->words, memory_order_acquire);
        unsigned chunk = 32 - (unsigned)__builtin_clz(words / POOL_FIRST);
        _Atomic(void *) *none = NULL, *memory;
        if (words >= wanted)
            return true;
        memory = os_map(words * sizeof(void *)); /* doubles the array */
        if (!memory)
            return false;
        if (!atomic_compare_exchange_strong(&pool->chunk[chunk], &none, memory))
            os_unmap(memory, words * sizeof(void *)); /* another thread has added this chunk */
        atomic_compare_exchange_strong(&pool->words, &words, 2 * words);
    }
}

/* ---- the reserve ---------------------------------------------------------------------------- */

static uint32_t pool_forks(void)
{
    return 2 * atomic_load_explicit(&fork_count, memory_order_relaxed);
}

uint32_t pool_waiting(const struct stook_pool *pool)
{
    uint64_t waiters = atomic_load(&pool->waiters);

    return (uint32_t)(waiters >> 32) == atomic_load_explicit(&fork_count, memory_order_relaxed)
               ? (uint32_t)waiters
               : 0;
}

void pool_wake(struct stook_pool *pool, int n)
{
    atomic_fetch_add(&pool->turn, 1);
    raw_wake(&pool->turn, n);
}

/*
 * Whether the counts are this process's.  After a fork they are still the parent's: the first call of the child
 * counts the array's objects, and other threads do without the reserve meanwhile.  A nested call (a signal
 * handler's) never counts: it may have interrupted a put or take that began before the fork and is between two steps.
 */
static bool pool_is_current(struct stook_pool *pool, bool nested)
{
    uint32_t forks = atomic_load(&pool->forks), now = pool_forks(), n = 0;

    if (__builtin_expect(forks == now, 1))
        return true;
    /* If another fork interrupted the count, `forks` differs from both values, and this process counts again. */
    if (nested || forks == (now | POOL_COUNTING) ||
        !atomic_compare_exchange_strong(&pool->forks, &forks, now | POOL_COUNTING))
        return false;
    for (uint32_t i = 0; i < atomic_load_explicit(&pool->words, memory_order_relaxed); i++)
        n += atomic_load_explicit(pool_word(pool, i), memory_order_relaxed) != NULL;
    atomic_store_explicit(&pool->places, n, memory_order_relaxed);
    atomic_store_explicit(&pool->count, n, memory_order_relaxed);
    atomic_store(&pool->forks, now);
    if (pool_waiting(pool) > 0) /* threads that could not use the reserve meanwhile may sleep */
        pool_wake(pool, INT32_MAX);
    return true;
}

/* A pool with min_objects 0 keeps one object while a thread waits for it. */
static uint32_t pool_limit(const struct stook_pool *pool)
{
    uint32_t min = atomic_load_explicit(&pool->min, memory_order_relaxed);

    return min > 0 ? min : pool_waiting(pool) > 0;
}

bool pool_place(struct stook_pool *pool, uint32_t *place, bool nested)
{
    *place = atomic_load_explicit(&pool->places, memory_order_relaxed);
    if (!pool_is_current(pool, nested))
        return false;
    do {
        if (*place >= pool_limit(pool))
            return false;
    } while (!atomic_compare_exchange_weak(&pool->places, place, *place + 1));
    return true;
}

void pool_store(struct stook_pool *pool, uint32_t place, void *object)
{
    uint32_t words = atomic_load_explicit(&pool->words, memory_order_acquire);

    if (!object) {
        atomic_fetch_sub(&pool->places, 1);
        return;
    }
    for (uint32_t i = place % words;; i = i + 1 < words ? i + 1 : 0) {
        void *none = NULL;
        /* Release: the taker sees what this thread wrote to the object. */
        if (!atomic_load_explicit(pool_word(pool, i), memory_order_relaxed) &&
            atomic_compare_exchange_strong_explicit(pool_word(pool, i), &none, object,
                                                    memory_order_acq_rel, memory_order_relaxed))
            break;
    }
    atomic_fetch_add(&pool->count, 1);
}

bool pool_has(struct stook_pool *pool, const void *object)
{
    for (uint32_t i = 0; i < atomic_load_explicit(&pool->words, memory_order_acquire); i++)
        if (atomic_load_explicit(pool_word(pool, i), memory_order_relaxed) == object)
            return true;
    return false;
}

/* Within the context.  False: the reserve is full. */
static bool pool_put(struct stook_pool *pool, void *object, bool nested)
{
    uint32_t place;
    bool put = pool_place(pool, &place, nested);

    if (put)
        pool_store(pool, place, object);
    return put;
}

/* Within the context.  NULL: the reserve holds `keep` objects or fewer. */
static void *pool_take(struct stook_pool *pool, uint32_t keep, bool nested)
{
    uint32_t count, i, words;
    void *object = NULL;

    if (!pool_is_current(pool, nested))
        return NULL;
    count = atomic_load(&pool->count);
    do {
        if (count <= keep)
            return NULL;
    } while (!atomic_compare_exchange_weak(&pool->count, &count, count - 1));
    words = atomic_load_explicit(&pool->words, memory_order_acquire);
    for (i = (count - 1) % words; !object; i = i > 0 ? i - 1 : words - 1)
        if (atomic_load_explicit(pool_word(pool, i), memory_order_relaxed))
            object = atomic_exchange_explicit(pool_word(pool, i), NULL, memory_order_acq_rel);
    atomic_fetch_sub(&pool->places, 1);
    return object;
}

void *pool_take_outside(struct stook_pool *pool, uint32_t keep)
{
    bool nested = context_enter();
    void *object = pool_take(pool, keep, nested);

    context_leave();
    return object;
}

static bool pool_put_outside(struct stook_pool *pool, void *object)
{
    bool nested = context_enter(), put = pool_put(pool, object, nested);

    context_leave();
    return put;
}

/* ---- waiting -------------------------------------------------------------------------------- */

/* ThreadSanitizer does not support fences.  The accesses that this one orders are those of sections, which it does not see. */
static inline void pool_fence(void)
{
#ifndef __SANITIZE_THREAD__
    atomic_thread_fence(memory_order_seq_cst);
#endif
}

/* If `waiters` still counts threads of the parent, they are dropped. */
uint64_t pool_announce(struct stook_pool *pool)
{
    uint64_t before = atomic_load_explicit(&pool->waiters, memory_order_relaxed), after;
    uint64_t process = (uint64_t)atomic_load_explicit(&fork_count, memory_order_relaxed) << 32;

    do
        after = before >> 32 << 32 == process ? before + 1 : process + 1;
    while (!atomic_compare_exchange_weak(&pool->waiters, &before, after));
    /* The count is visible before this thread reads slots, whose words it loads without order.  Pairs with the
     * fence in pool_free_to_cache(). */
    pool_fence();
    return process;
}

void pool_withdraw(struct stook_pool *pool, uint64_t process)
{
    uint64_t before = atomic_load_explicit(&pool->waiters, memory_order_relaxed);

    do
        /* In a child that a handler forked, this thread was never counted. */
        if (before >> 32 << 32 != process)
            return;
    while (!atomic_compare_exchange_weak(&pool->waiters, &before, before - 1));
}

/* How many nanoseconds a thread may sleep before it tries again or reaches the deadline `until`; 0: until it is
 * woken.  False: the deadline has passed. */
static bool pool_sleep(uint64_t until, uint64_t *nanoseconds)
{
    uint64_t now;

    *nanoseconds = pool_nap;
    if (until == POOL_FOREVER)
        return true;
    now = raw_clock();
    if (now >= until)
        return false;
    if (pool_nap == 0 || until - now < pool_nap)
        *nanoseconds = until - now;
    return true;
}

static void *pool_wait(struct stook_pool *pool, uint64_t until)
{
    uint64_t nanoseconds = 0;
    void *object = NULL;
    bool late = false;

    while (!object && !late) {
        uint64_t process = pool_announce(pool);
        uint32_t turn = atomic_load(&pool->turn);
        object = pool_take_outside(pool, 0);
        if (!object)
            /* This may reclaim, which drains the sheaves of all CPUs. */
            object = accounted_alloc(pool->cache, STOOK_WAIT, 0, ACCOUNT_NOBODY);
        late = !object && !pool_sleep(until, &nanoseconds);
        if (!object && !late) {
            raw_wait(&pool->turn, turn, nanoseconds);
            object = pool_take_outside(pool, 0);
        }
        pool_withdraw(pool, process);
    }
    return object;
}

/* ---- alloc and free ------------------------------------------------------------------------- */

/*
 * Takes an object of the reserve, or waits for one.  An object in the reserve is charged to no group, so the call
 * charges this thread's group first.  If that is at its limit the call fails: an object that is freed would not help.
 */
static void *pool_alloc_reserve(struct stook_pool *pool, unsigned flags, uint64_t where,
                                uint64_t until)
{
    bool hooked = cache_hooks(pool->cache), late = false, nested;
    struct account account;
    void *object;

    if (hooked && !observe_begin(pool->cache, &account, 1, flags, where, ACCOUNT_CURRENT))
        return NULL;
    nested = context_enter();
    object = pool_take(pool, 0, nested);
    context_leave();
    if (!object && reclaim_may(flags, nested))
        object = pool_wait(pool, until), late = !object;
    if (object)
        observe_unreserve(pool->cache, object, where);
    if (hooked)
        observe_end(pool->cache, &account, &object, object != NULL, 1, where);
    if (!object)
        errno = late ? ETIMEDOUT : ENOMEM;
    return object;
}

/* Nanoseconds of the clock; false with errno EINVAL: that is no time. */
static bool pool_until(const struct timespec *deadline, uint64_t *until)
{
    *until = POOL_FOREVER;
    if (!deadline)
        return true;
    if (deadline->tv_nsec < 0 || deadline->tv_nsec >= (long)POOL_SECOND) {
        errno = EINVAL;
        return false;
    }
    if (deadline->tv_sec < 0)
        *until = 0;
    else if ((uint64_t)deadline->tv_sec < POOL_FOREVER / POOL_SECOND)
        *until = (uint64_t)deadline->tv_sec * POOL_SECOND + (uint64_t)deadline->tv_nsec;
    return true;
}

static __attribute__((noinline, cold)) void *pool_alloc_slow(struct stook_pool *pool,
                                                             unsigned flags, uint64_t where,
                                                             const struct timespec *deadline)
{
    int saved = errno;
    void *object;
    uint64_t until;

    if (!pool_until(deadline, &until))
        return NULL;
    object = accounted_alloc(pool->cache, flags | STOOK_NORECLAIM, where, ACCOUNT_CURRENT);
    if (object) {
        errno = saved; /* one zone may have been used up before another had memory */
        rows_add(pool_counter(pool, POOL_ALLOCATED), ROWS_LINE, 1);
        return object;
    }
    if (errno == EINVAL)
        return NULL;
    object = pool_alloc_reserve(pool, flags, where, until);
    if (!object)
        return NULL;
    errno = saved;
    rows_add(pool_counter(pool, POOL_ALLOCATED), ROWS_LINE, 1);
    if (flags & STOOK_ZERO)
        memset(object, 0, pool->cache->object_size);
    return object;
}

void *stook_pool_alloc(struct stook_pool *pool, unsigned flags, const struct timespec *deadline)
{
    const struct stook_cache_head *head = &pool->cache->head;
    void *object;

    if (__builtin_expect((flags & ~(STOOK_NORECLAIM | STOOK_SIGNAL_SAFE)) == 0, 1) &&
        __builtin_expect(stook_rseq_pop(head->slots, head->rseq_offset, &object), 1)) {
        rows_add(pool_counter(pool, POOL_ALLOCATED), ROWS_LINE, 1);
        return object;
    }
    return pool_alloc_slow(pool, flags, where_address(__builtin_return_address(0)), deadline);
}

/* Returns objects that have no user to the cache.  If the cache has hooks, they are not charged and not traced. */
static void pool_give_back(struct stook_cache *cache, uint32_t n, void **objects)
{
    bool nested;

    if (!cache_hooks(cache)) {
        stook_free_bulk(cache, n, objects);
        return;
    }
    account_return(cache, objects, n);
    nested = context_enter();
    slot_free(cache, objects, n, nested);
    context_leave();
}

/* A free while the reserve is short, a thread waits, or this is a forked child. */
static __attribute__((noinline, cold)) void pool_free_slow(struct stook_pool *pool, void *object)
{
    if (cache_hooks(pool->cache))
        observe_clear(pool->cache, &object, 1);
    else if (!free_checks(pool->cache, object))
        object = NULL;
    if (__builtin_expect(!object, 0)) {
        rows_add(pool_counter(pool, POOL_FREED), ROWS_LINE, (uint64_t)-1);
        return;
    }
    if (!pool_put_outside(pool, object))
        pool_give_back(pool->cache, 1, &object);
    if (pool_waiting(pool) > 0)
        pool_wake(pool, 1);
}

static inline void pool_free_to_cache(struct stook_pool *pool, void *object)
{
    struct stook_cache *cache = pool->cache;

    if (__builtin_expect(stook_rseq_push(cache->head.slots, cache->head.rseq_offset, object), 1))
        return;
    if (__builtin_expect(cache->flags & (CACHE_DEBUG | CACHE_HARDENED), 0)) {
        pool_free_slow(pool, object); /* its checks may refuse the object */
        return;
    }
    stook_free(cache, object);
    /* The store that opened the slot is visible before stook_pool_free() reads `waiters`.  A thread that announced
     * itself meanwhile may have found the slot closed, and skipped it.  Pairs with the fence in pool_announce(). */
    pool_fence();
}

/*
 * The relaxed loads below may miss that the reserve became short meanwhile.  It is short only while an object that was
 * taken from it is in use.  The thread that frees that object sees the lower count, since the taker lowered it before.
 */
void stook_pool_free(struct stook_pool *pool, void *object)
{
    if (!object)
        return;
    rows_add(pool_counter(pool, POOL_FREED), ROWS_LINE, 1);
    if (__builtin_expect(
            atomic_load_explicit(&pool->places, memory_order_relaxed) >=
                    atomic_load_explicit(&pool->min, memory_order_relaxed) &&
                (uint32_t)atomic_load_explicit(&pool->waiters, memory_order_relaxed) == 0 &&
                atomic_load_explicit(&pool->forks, memory_order_relaxed) == pool_forks(),
            1)) {
        pool_free_to_cache(pool, object);
        /* A thread that announces itself after this load interrupts this CPU (percpu_fence()) before it drains the
         * CPU's sheaves, so it finds the object. */
        if (__builtin_expect(
                (uint32_t)atomic_load_explicit(&pool->waiters, memory_order_relaxed) == 0, 1))
            return;
        if (pool_waiting(pool) > 0)
            pool_wake(pool, 1);
        return;
    }
    pool_free_slow(pool, object);
}

/* ---- a pool's life -------------------------------------------------------------------------- */

/* Fills the reserve up to its limit; false: out of memory before that. */
static bool pool_fill(struct stook_pool *pool)
{
    void *objects[POOL_BATCH];
    size_t batch = POOL_BATCH;

    for (;;) {
        uint32_t min = atomic_load(&pool->min), places = atomic_load(&pool->places);
        size_t n = min > places ? min - places : 0, put = 0;
        bool nested;
        if (n == 0)
            return true;
        if (n > batch)
            n = batch;
        if (accounted_alloc_bulk(pool->cache, STOOK_WAIT, n, objects, 0, ACCOUNT_NOBODY) == 0) {
            if (n == 1)
                return false;
            batch = n / 2;
            continue;
        }
        nested = context_enter();
        while (put < n && pool_put(pool, objects[put], nested))
            put++;
        context_leave();
        for (size_t i = 0; i < put && pool_waiting(pool) > 0; i++)
            pool_wake(pool, 1);
        if (put < n) { /* other threads have filled it */
            pool_give_back(pool->cache, (uint32_t)(n - put), objects + put);
            return true;
        }
    }
}

/* Returns the reserve's objects beyond `keep` to the cache. */
static void pool_spill(struct stook_pool *pool, uint32_t keep)
{
    void *object;

    while ((object = pool_take_outside(pool, keep)) != NULL)
        pool_give_back(pool->cache, 1, &object);
}

static size_t pool_size(void)
{
    return sizeof(struct stook_pool) + rows_size(ROWS_LINE);
}

/* Objects that the reserve still holds are not freed. */
static void pool_unmake(struct stook_pool *pool)
{
    for (unsigned chunk = 1; chunk < POOL_CHUNKS && pool->chunk[chunk]; chunk++)
        os_unmap((void *)pool->chunk[chunk], pool_chunk_words(chunk) * sizeof(void *));
    os_unmap(pool, pool_size());
}

/* 0, or -1 with errno E2BIG or ENOMEM. */
static int pool_set_min(struct stook_pool *pool, unsigned min)
{
    if (min > STOOK_POOL_OBJECTS_MAX || !pool_extend(pool, min)) {
        errno = min > STOOK_POOL_OBJECTS_MAX ? E2BIG : ENOMEM;
        return -1;
    }
    atomic_store(&pool->min, min);
    return 0;
}

struct stook_pool *pool_make(struct stook_cache *cache, unsigned min)
{
    struct stook_pool *pool = os_map(pool_size());

    if (!pool) {
        errno = ENOMEM;
        return NULL;
    }
    pool->cache = cache;
    pool->chunk[0] = pool->first;
    pool->words = POOL_FIRST;
    pool->forks = pool_forks();
    if (pool_set_min(pool, min) == 0)
        return pool;
    pool_unmake(pool);
    return NULL;
}

struct stook_pool *stook_pool_create(struct stook_cache *cache, unsigned min_objects)
{
    struct stook_pool *pool = pin_alive(cache) ? pool_make(cache, min_objects) : NULL;

    if (!pool || pool_fill(pool))
        return pool;
    pool_spill(pool, 0);
    pool_unmake(pool);
    errno = ENOMEM;
    return NULL;
}

int stook_pool_resize(struct stook_pool *pool, unsigned min_objects)
{
    int saved = errno;

    if (pool_set_min(pool, min_objects) != 0)
        return -1;
    if (!pool->bag) {
        (void)pool_fill(pool);
        pool_spill(pool, min_objects);
    }
    errno = saved;
    return 0;
}

int stook_pool_destroy(struct stook_pool *pool)
{
    int64_t out;

    if (!pool)
        return 0;
    out = pool_out(pool);
    if (out != 0) {
        report_warn(
            "pool of cache \"%s\" cannot be destroyed: objects in use: %lld; free them first",
            pool->cache->name, (long long)out);
        errno = EBUSY;
        return -1;
    }
    if (!pool->bag)
        pool_spill(pool, 0);
    pool_unmake(pool);
    return 0;
}

unsigned stook_pool_available(const struct stook_pool *pool)
{
    return atomic_load(&pool->count);
}
