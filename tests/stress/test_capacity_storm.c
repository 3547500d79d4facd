/* SPDX-License-Identifier: MIT */
/* debug: no */
/* needs: whole */
/*
 * Threads allocate and free objects one by one and in bulk, prefill sheaves, use a pool and defer frees.  Another
 * thread changes the caches' capacities at random, sets budgets, shrinks, scans for caches that have grown, and
 * forks.  Every object names its owner: none is allocated twice, none is lost.  Budgets are kept, and counters
 * agree with the calls.  STOOK_TEST_ROUNDS=n for n times as long.
 */
#include "cache/adapt.h"
#include "base/settings.h"
#include "os/topology.h"
#include "sheaf/budget.h"
#include "support/check.h"
#include "support/delayed_rcu.h"
#include "support/random.h"
#include "support/scale.h"
#include "support/test.h"

#include <stook/reserve.h>
#include <stook/rcu.h>
#include <stook/stat.h>
#include <stook/stook.h>

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

enum { THREADS = 4, CACHES = 4, HELD = 400, BULK = 150, TURNS = 6000, CHANGES = 150, FORKS = 4 };

static const struct kind {
    size_t size;
    unsigned flags, capacity;
} kinds[CACHES] = {
    {16, 0, 0}, {256, STOOK_CACHE_ADAPTIVE, 0}, {64, STOOK_CACHE_ADAPTIVE, 3}, {1000, 0, 1022}};

struct object {
    _Atomic uint32_t owner;
    uint32_t pad[3];
};

static struct stook_cache *caches[CACHES];
static struct stook_pool *pool;
static atomic_uint errors, finished;
static atomic_ulong taken[CACHES], returned[CACHES];

struct thread {
    uint32_t number;
    uint64_t random;
    unsigned n[CACHES];
    struct object *held[CACHES][HELD];
};
static struct thread threads[THREADS];

static void own(struct thread *t, unsigned c, struct object *object)
{
    if (atomic_exchange(&object->owner, t->number) != 0)
        atomic_fetch_add(&errors, 1);
    t->held[c][t->n[c]++] = object;
}

static struct object *disown(struct thread *t, unsigned c)
{
    struct object *object = t->held[c][--t->n[c]];

    if (atomic_exchange(&object->owner, 0) != t->number)
        atomic_fetch_add(&errors, 1);
    return object;
}

static void construct(void *object, void *arg)
{
    atomic_init(&((struct object *)object)->owner, 0);
}

static void one_by_one(struct thread *t, unsigned c, unsigned n)
{
    if (random_next(&t->random) & 1) {
        for (; n > 0 && t->n[c] < HELD; n--) {
            struct object *object = stook_alloc(caches[c], 0);
            if (object) {
                own(t, c, object);
                atomic_fetch_add_explicit(&taken[c], 1, memory_order_relaxed);
            }
        }
    } else {
        for (; n > 0 && t->n[c] > 0; n--) {
            stook_free(caches[c], disown(t, c));
            atomic_fetch_add_explicit(&returned[c], 1, memory_order_relaxed);
        }
    }
}

static void in_bulk(struct thread *t, unsigned c, unsigned n)
{
    void *objects[BULK];

    if (random_next(&t->random) & 1 && t->n[c] + n <= HELD) {
        n = stook_alloc_bulk(caches[c], 0, n, objects) == 0 ? n : 0;
        for (unsigned i = 0; i < n; i++)
            own(t, c, objects[i]);
        atomic_fetch_add_explicit(&taken[c], n, memory_order_relaxed);
    } else {
        if (n > t->n[c])
            n = t->n[c];
        for (unsigned i = 0; i < n; i++)
            objects[i] = disown(t, c);
        atomic_fetch_add_explicit(&returned[c], n, memory_order_relaxed);
        stook_free_bulk(caches[c], n, objects);
    }
}

/* What a sheaf holds counts as taken when it is filled, and as returned with it; so it is not counted. */
static void prefilled(struct thread *t, unsigned c, unsigned n)
{
    struct stook_sheaf *sheaf = stook_sheaf_prefill(caches[c], 0, n);
    struct object *object;

    if (!sheaf) {
        atomic_fetch_add(&errors, 1);
        return;
    }
    if (stook_sheaf_size(sheaf) < n)
        atomic_fetch_add(&errors, 1);
    while (n > 0 && t->n[c] < HELD && (object = stook_sheaf_alloc(caches[c], 0, sheaf)) != NULL) {
        own(t, c, object);
        n--;
    }
    if (stook_sheaf_refill(caches[c], 0, &sheaf, 1 + random_below(&t->random, 2 * BULK)) != 0)
        atomic_fetch_add(&errors, 1);
    stook_sheaf_return(caches[c], sheaf);
}

static void pooled(struct thread *t)
{
    struct object *object = stook_pool_alloc(pool, STOOK_NORECLAIM, NULL);

    if (object) {
        if (atomic_exchange(&object->owner, t->number) != 0 ||
            atomic_exchange(&object->owner, 0) != t->number)
            atomic_fetch_add(&errors, 1);
        stook_pool_free(pool, object);
    }
}

static void *work(void *arg)
{
    struct thread *t = arg;

    for (uint64_t turn = scaled(TURNS); turn > 0; turn--) {
        unsigned c = random_below(&t->random, CACHES);
        unsigned n = 1 + random_below(&t->random, BULK);
        switch (random_below(&t->random, 8)) {
        case 0:
        case 1:
        case 2:
            one_by_one(t, c, n);
            break;
        case 3:
        case 4:
            in_bulk(t, c, n);
            break;
        case 5:
            prefilled(t, c, n);
            break;
        case 6:
            for (; n > 0 && t->n[c] > 0; n--)
                stook_free_rcu(caches[c], disown(t, c));
            break;
        default:
            pooled(t);
        }
    }
    atomic_fetch_add(&finished, 1);
    return NULL;
}

/* ---- what changes ---------------------------------------------------------------------------- */

static void fork_once(void)
{
    int status = 0;
    pid_t child = fork();

    if (child == 0) {
        /* No slot closed, no lock held: it can do all of it alone. */
        void *objects[BULK];
        for (unsigned c = 0; c < CACHES; c++) {
            if (stook_alloc_bulk(caches[c], 0, BULK, objects) != 0)
                _exit(1);
            stook_free_bulk(caches[c], BULK, objects);
            if (stook_cache_set_capacity(caches[c], 1 + c * 20) != 0)
                _exit(2);
            (void)stook_cache_shrink(caches[c]);
        }
        _exit(0);
    }
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0)
        atomic_fetch_add(&errors, 1);
}

/* At least as many changes as there must be, and on until the last thread has finished. */
static void change(uint64_t *random)
{
    uint64_t most = scaled(CHANGES), forks = 0;

    for (uint64_t i = 0; i < most || atomic_load(&finished) < THREADS; i++) {
        struct stook_cache *cache = caches[random_below(random, CACHES)];
        switch (random_below(random, 16)) {
        case 0:
            (void)stook_cache_shrink(cache);
            break;
        case 1:
            (void)stook_cached_bytes_set_max(random_below(random, 1 << 20));
            break;
        case 2:
            (void)stook_cached_bytes_set_max(setting_initial_number(SETTING_CACHED_MAX));
            break;
        case 3:
        case 4:
            for (unsigned c = 0; c <= CACHES; c++)
                adapt_scan(NULL, false);
            break;
        case 5:
            if (forks++ < FORKS)
                fork_once();
            break;
        default:
            if (stook_cache_set_capacity(cache, random_below(random, 4) == 0
                                                    ? random_below(random, 1023)
                                                    : random_below(random, 80)) != 0)
                atomic_fetch_add(&errors, 1);
        }
        if (atomic_load(&budget.granted) > setting_initial_number(SETTING_CACHED_MAX))
            atomic_fetch_add(&errors, 1);
        sched_yield();
    }
}

static void end(void)
{
    static struct check_object held[THREADS * CACHES * HELD + 64];
    size_t n = 0;

    stook_rcu_barrier();
    assert_int_equal(stook_pool_destroy(pool), 0);
    for (unsigned i = 0; i < THREADS; i++)
        for (unsigned c = 0; c < CACHES; c++)
            for (unsigned o = 0; o < threads[i].n[c]; o++)
                held[n++] = (struct check_object){caches[c], threads[i].held[c][o]};
    check_all(held, n);
    for (unsigned c = 0; c < CACHES; c++) {
        struct stook_stat stat = {.size = sizeof(stat)};
        uint64_t out = 0, got, gave;
        for (unsigned i = 0; i < THREADS; i++)
            out += threads[i].n[c];
        assert_int_equal(stook_cache_stat(caches[c], &stat), 0);
        /* All allocations and frees are counted.  Objects that were deferred without a sheaf are freed later, and
         * may count again. */
        got = stat.alloc_fastpath + stat.alloc_slowpath;
        gave = stat.free_fastpath + stat.free_slowpath + stat.free_rcu_sheaf;
        if (topology.memories == 1) {
            assert_true(got - gave >= out);
            assert_true(got - gave <= out + stat.free_rcu_sheaf_fail);
        }
        assert_true(got >= atomic_load(&taken[c]));
        assert_true(gave >= atomic_load(&returned[c]));
        assert_true(stat.sheaf_alloc >= stat.sheaf_free);
        for (unsigned i = 0; i < THREADS; i++)
            while (threads[i].n[c] > 0)
                stook_free(caches[c], disown(&threads[i], c));
        assert_int_equal(stook_cache_destroy(caches[c]), 0);
    }
    check_all(NULL, 0);
    assert_int_equal(atomic_load(&budget.granted), 0);
    assert_int_equal(atomic_load(&adapt_grown), 0);
    assert_int_equal(atomic_load(&errors), 0);
}

TEST(storm)
{
    pthread_t workers[THREADS];
    uint64_t random = 20261121;

    assert_int_equal(delayed_use(), 0);
    for (unsigned c = 0; c < CACHES; c++) {
        struct stook_cache_args args = {.size = sizeof(args),
                                        .ctor = construct,
                                        .flags = kinds[c].flags,
                                        .sheaf_capacity = kinds[c].capacity};
        caches[c] = stook_cache_create("stormed", kinds[c].size, &args);
        assert_non_null(caches[c]);
        assert_int_equal(stook_cache_stat_enable(caches[c], STOOK_STATS_ALL), 0);
    }
    pool = stook_pool_create(caches[1], 16);
    assert_non_null(pool);
    for (unsigned i = 0; i < THREADS; i++) {
        threads[i].number = i + 1;
        threads[i].random = i + 77;
        assert_int_equal(pthread_create(&workers[i], NULL, work, &threads[i]), 0);
    }
    change(&random);
    for (unsigned i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(workers[i], NULL), 0);
    assert_int_equal(stook_cached_bytes_set_max(setting_initial_number(SETTING_CACHED_MAX)), 0);
    end();
    delayed_end();
}
