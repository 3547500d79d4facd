/* SPDX-License-Identifier: MIT */
/* needs: whole native */
/*
 * Memory pools, call by call, in an arena of 32 MiB that a test uses up.  The reserve's size through allocations,
 * frees and resizes; the results in each context; waiting; handlers and forks between any two steps of the reserve.
 */
#include "reserve/pool.h"

#include "cache/init.h"
#include "percpu/rows.h"
#include "slab/slab.h"
#include "support/check.h"
#include "support/environment.h"
#include "support/test.h"

#include <stook/group.h>
#include <stook/reserve.h>
#include <stook/stook.h>

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <time.h>

enum { SIZE = 16000, MOST = 40000 };

static struct stook_cache *cache;
static struct check_object held[MOST];
static size_t nheld;

static void hold(void *object)
{
    assert_non_null(object);
    assert_true(nheld < MOST);
    held[nheld++] = (struct check_object){cache, object};
}

static void *unhold(void)
{
    assert_true(nheld > 0);
    return held[--nheld].object;
}

static void exhaust(void)
{
    void *object;

    for (int misses = 0; misses < 6; misses = object ? 0 : misses + 1)
        if ((object = stook_alloc(cache, 0)) != NULL)
            hold(object);
}

/* The reserve's counts and its array agree, and all that is anywhere is known. */
static void check_pool(struct stook_pool *pool)
{
    size_t before = nheld;
    uint32_t n = 0;

    for (unsigned chunk = 0; chunk < POOL_CHUNKS && pool->chunk[chunk]; chunk++) {
        uint32_t words = chunk == 0 ? POOL_FIRST : (uint32_t)POOL_FIRST << (chunk - 1);
        for (uint32_t i = 0; i < words; i++) {
            void *object = atomic_load(&pool->chunk[chunk][i]);
            if (object) {
                hold(object);
                n++;
            }
        }
    }
    assert_int_equal(n, pool->places);
    assert_int_equal(n, pool->count);
    assert_int_equal(n, stook_pool_available(pool));
    check_all(held, nheld);
    nheld = before;
}

static int setup(void **unused)
{
    pool_nap = 0; /* no thread tries again without a wake-up: a lost one is a hang */
    cache = stook_cache_create("pooled", SIZE, NULL);
    return cache ? 0 : -1;
}

static int teardown(void **unused)
{
    while (nheld > 0)
        stook_free(cache, unhold());
    check_all(NULL, 0);
    return stook_cache_destroy(cache);
}

/* ---- alone ---------------------------------------------------------------------------------- */

TEST_WITH(life, setup, teardown)
{
    static const unsigned mins[] = {0, 1, 63, 64, 65, 128, 129, 300};

    for (unsigned i = 0; i < sizeof(mins) / sizeof(mins[0]); i++) {
        struct stook_pool *pool = stook_pool_create(cache, mins[i]);
        assert_non_null(pool);
        assert_int_equal(stook_pool_available(pool), mins[i]);
        check_pool(pool);
        errno = 17;
        for (unsigned k = 0; k < 400; k++)
            hold(stook_pool_alloc(pool, k % 2 ? STOOK_NORECLAIM : STOOK_WAIT, NULL));
        assert_int_equal(errno, 17);
        assert_int_equal(stook_pool_available(pool), mins[i]); /* the cache had enough */
        while (nheld > 0)
            stook_pool_free(pool, unhold());
        stook_pool_free(pool, NULL);
        assert_int_equal(errno, 17);
        check_pool(pool);
        assert_int_equal(stook_pool_destroy(pool), 0);
    }
    assert_int_equal(stook_pool_destroy(NULL), 0);
    errno = 0;
    assert_null(stook_pool_create(cache, STOOK_POOL_OBJECTS_MAX + 1));
    assert_int_equal(errno, E2BIG);
    errno = 0;
    assert_null(stook_pool_create(cache, 100000)); /* 1.6 GB of 32 MiB */
    assert_int_equal(errno, ENOMEM);
    check_all(NULL, 0);
}

TEST_WITH(exhaustion, setup, teardown)
{
    struct stook_pool *pool = stook_pool_create(cache, 100);
    void *object;

    exhaust();
    size_t others = nheld;
    for (unsigned n = 100; n > 0; n--) { /* the reserve, in every context */
        assert_int_equal(stook_pool_available(pool), n);
        errno = 17;
        hold(stook_pool_alloc(pool, n % 3, NULL));
        assert_int_equal(errno, 17);
    }
    for (unsigned flags = STOOK_NORECLAIM; flags <= (STOOK_NORECLAIM | STOOK_SIGNAL_SAFE);
         flags++) {
        errno = 0;
        assert_null(stook_pool_alloc(pool, flags, NULL));
        assert_int_equal(errno, ENOMEM);
    }
    errno = 0;
    assert_null(stook_pool_alloc(pool, 0x100, NULL));
    assert_int_equal(errno, EINVAL);
    check_pool(pool);
    for (unsigned n = 0; n < 100; n++) { /* frees fill it before anything else */
        assert_int_equal(stook_pool_available(pool), n);
        memset(held[nheld - 1].object, 0x44, SIZE);
        stook_pool_free(pool, unhold());
        check_pool(pool);
    }
    assert_int_equal(nheld, others);
    object = stook_pool_alloc(pool, STOOK_ZERO | STOOK_NORECLAIM, NULL);
    assert_non_null(object);
    for (unsigned i = 0; i < SIZE; i++)
        assert_int_equal(((char *)object)[i], 0);
    assert_int_equal(stook_pool_available(pool), 99);
    stook_pool_free(pool, object);
    assert_int_equal(stook_pool_available(pool), 100);
    assert_int_equal(stook_pool_destroy(pool), 0);
}

static void construct(void *object, void *arg)
{
    memset(object, 0x5a, SIZE);
}

/* In the reserve, too, objects keep what the constructor and their users left. */
TEST_WITH(constructed, setup, teardown)
{
    struct stook_cache_args args = {.size = sizeof(args), .ctor = construct};
    struct stook_cache *made = stook_cache_create("made", SIZE, &args);
    struct stook_pool *pool = stook_pool_create(made, 20);
    static void *objects[MOST];
    unsigned n = 0;

    while ((objects[n] = stook_pool_alloc(pool, STOOK_NORECLAIM, NULL)) != NULL) {
        for (unsigned i = 0; i < SIZE; i += 8)
            assert_int_equal(((char *)objects[n])[i], 0x5a);
        n++;
    }
    assert_int_equal(stook_pool_available(pool), 0);
    for (unsigned round = 0; round < 3; round++) {
        for (unsigned i = 0; i < 40; i++)
            stook_pool_free(pool, objects[--n]);
        for (unsigned i = 0; i < 20; i++, n++) {
            objects[n] = stook_pool_alloc(pool, STOOK_NORECLAIM, NULL);
            assert_non_null(objects[n]);
            for (unsigned k = 0; k < SIZE; k += 8)
                assert_int_equal(((char *)objects[n])[k], 0x5a);
        }
    }
    errno = 0;
    assert_null(stook_pool_alloc(pool, STOOK_ZERO, NULL));
    assert_int_equal(errno, EINVAL);
    while (n > 0)
        stook_pool_free(pool, objects[--n]);
    assert_int_equal(stook_pool_destroy(pool), 0);
    assert_int_equal(stook_cache_destroy(made), 0);
}

TEST_WITH(resize, setup, teardown)
{
    static const unsigned sizes[] = {3, 64, 65, 10, 200, 500, 0, 1, 129, 128, 2};
    struct stook_pool *pool = stook_pool_create(cache, 2);
    unsigned n;

    for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        errno = 17;
        assert_int_equal(stook_pool_resize(pool, sizes[i]), 0);
        assert_int_equal(errno, 17);
        assert_int_equal(stook_pool_available(pool), sizes[i]);
        check_pool(pool);
    }
    errno = 0;
    assert_int_equal(stook_pool_resize(pool, STOOK_POOL_OBJECTS_MAX + 1), -1);
    assert_int_equal(errno, E2BIG);
    assert_int_equal(stook_pool_available(pool), 2);
    /* Without memory it fills as objects are freed. */
    exhaust();
    assert_int_equal(stook_pool_resize(pool, 300), 0);
    exhaust();
    n = stook_pool_available(pool);
    assert_true(n >= 2 && n < 100);
    for (unsigned i = 0; i < n; i++)
        hold(stook_pool_alloc(pool, STOOK_NORECLAIM, NULL));
    assert_null(stook_pool_alloc(pool, STOOK_NORECLAIM, NULL));
    for (unsigned i = 0; i < n; i++)
        stook_pool_free(pool, unhold());
    assert_int_equal(stook_pool_available(pool), n);
    while (nheld > 0)
        stook_free(cache, unhold());
    for (unsigned i = 0; i < 400; i++)
        hold(stook_pool_alloc(pool, STOOK_NORECLAIM, NULL));
    while (nheld > 0)
        stook_pool_free(pool, unhold());
    assert_int_equal(stook_pool_available(pool), 300);
    check_pool(pool);
    assert_int_equal(stook_pool_destroy(pool), 0);
}

static struct stook_pool *busy_pool;

static int destroy_busy(void *arg)
{
    errno = 0;
    return stook_pool_destroy(busy_pool) == -1 && errno == EBUSY ? 0 : 1;
}

static int free_other(void *arg)
{
    struct stook_cache *other = stook_cache_create("other", 64, NULL);
    void *object = stook_alloc(other, 0);

    hold(stook_pool_alloc(busy_pool, 0, NULL));
    exhaust();
    hold(stook_pool_alloc(busy_pool, 0, NULL)); /* the reserve is short: the slow path */
    stook_pool_free(busy_pool, object);
    return 0;
}

TEST_WITH(busy, setup, teardown)
{
    struct stook_cache *small = stook_cache_create("small", 64, NULL);
    void *mine = stook_alloc(small, 0);
    struct child child;

    busy_pool = stook_pool_create(cache, 5);
    for (unsigned i = 0; i < 3; i++)
        hold(stook_pool_alloc(busy_pool, 0, NULL));
    child_run(&child, destroy_busy, NULL);
    assert_true(child_passed(&child));
    assert_non_null(strstr(
        child.error, "pool of cache \"pooled\" cannot be destroyed: objects in use: 3; free"));
    child_run(&child, free_other, NULL);
    assert_true(child_died_saying(&child, "BUG pooled: bad free"));
    for (unsigned i = 0; i < 3; i++)
        stook_pool_free(busy_pool, unhold());
    assert_int_equal(stook_pool_destroy(busy_pool), 0);
    stook_free(small, mine);
    assert_int_equal(stook_cache_destroy(small), 0);
}

/* ---- waiting -------------------------------------------------------------------------------- */

static struct stook_pool *waited;
static atomic_uint got;

static void *waiter(void *flags)
{
    void *object = stook_pool_alloc(waited, (unsigned)(uintptr_t)flags, NULL);

    atomic_fetch_add(&got, 1);
    return object;
}

static void waiting(unsigned min, unsigned n)
{
    pthread_t threads[8];
    void *object;

    atomic_store(&got, 0);
    waited = stook_pool_create(cache, min);
    assert_non_null(waited);
    /* The pool's own: one of these comes back to it. */
    while ((object = stook_pool_alloc(waited, STOOK_NORECLAIM, NULL)) != NULL)
        hold(object);
    exhaust();
    for (unsigned i = 0; i < n; i++)
        pthread_create(&threads[i], NULL, waiter, (void *)(uintptr_t)(i % 2 ? STOOK_ZERO : 0));
    /* What they give each other while they look everywhere may suffice for one of them. */
    while ((uint32_t)atomic_load(&waited->waiters) + atomic_load(&got) < n)
        sched_yield();
    for (unsigned i = 0, have = atomic_load(&got); have < n; i++) { /* an object, a waiter less */
        object = held[i].object;
        held[i] = held[nheld - 1];
        nheld--;
        stook_pool_free(waited, object);
        while (atomic_load(&got) <= have)
            sched_yield();
        have = atomic_load(&got);
    }
    for (unsigned i = 0; i < n; i++) {
        pthread_join(threads[i], &object);
        hold(object);
    }
    assert_int_equal((uint32_t)atomic_load(&waited->waiters), 0);
    check_pool(waited);
    int64_t out = pool_out(waited);
    while (out-- > 0) /* whichever: frees are counted */
        stook_pool_free(waited, unhold());
    assert_int_equal(stook_pool_destroy(waited), 0);
}

TEST_WITH(waiters, setup, teardown)
{
    for (unsigned min = 0; min <= 2; min++)
        for (unsigned n = 1; n <= 8; n *= 2)
            waiting(min, n);
}

/* An object that is freed between a waiter's look into the reserve and his sleep. */
static void *late;

static size_t free_late(size_t wanted, void *arg)
{
    if (late && (uint32_t)atomic_load(&waited->waiters) == 1) {
        stook_pool_free(waited, late);
        late = NULL;
    }
    return 0;
}

TEST_WITH(freed_before_the_sleep, setup, teardown)
{
    for (unsigned min = 0; min < 2; min++) {
        waited = stook_pool_create(cache, min);
        while ((late = stook_pool_alloc(waited, STOOK_NORECLAIM, NULL)) != NULL)
            hold(late);
        exhaust();
        late = unhold();
        assert_int_equal(stook_reclaim_register(free_late, NULL), 0);
        hold(stook_pool_alloc(waited, STOOK_WAIT, NULL)); /* would sleep without end */
        assert_int_equal(stook_reclaim_unregister(free_late, NULL), 0);
        assert_null(late);
        for (int64_t out = pool_out(waited); out > 0; out--)
            stook_pool_free(waited, unhold());
        assert_int_equal(stook_pool_destroy(waited), 0);
    }
}

/* Objects that others free to the cache itself are found by looking again, which `pool_nap` is for. */
TEST_WITH(looks_again, setup, teardown)
{
    pthread_t thread;
    void *object;

    pool_nap = 1000000;
    atomic_store(&got, 0);
    waited = stook_pool_create(cache, 0);
    exhaust();
    pthread_create(&thread, NULL, waiter, NULL);
    while ((uint32_t)atomic_load(&waited->waiters) == 0)
        sched_yield();
    for (unsigned i = 0; i < 40; i++)
        stook_free(cache, unhold());
    pthread_join(thread, &object);
    assert_non_null(object);
    stook_pool_free(waited, object);
    assert_int_equal(stook_pool_destroy(waited), 0);
}

/* No thread frees an object: the deadline ends the wait, and not earlier. */
TEST_WITH(deadlines, setup, teardown)
{
    struct timespec deadline, now;
    void *object;

    waited = stook_pool_create(cache, 0);
    exhaust();
    clock_gettime(CLOCK_MONOTONIC, &deadline);
    for (int i = 0; i < 2; i++) { /* at once; later, with and without naps */
        pool_nap = i ? 1000000 : 0;
        errno = 0;
        assert_null(stook_pool_alloc(waited, STOOK_WAIT, &deadline));
        assert_int_equal(errno, ETIMEDOUT);
        deadline.tv_nsec += 20000000;
        deadline.tv_sec += deadline.tv_nsec / 1000000000;
        deadline.tv_nsec %= 1000000000;
        errno = 0;
        assert_null(stook_pool_alloc(waited, STOOK_WAIT, &deadline));
        assert_int_equal(errno, ETIMEDOUT);
        clock_gettime(CLOCK_MONOTONIC, &now);
        assert_true(now.tv_sec > deadline.tv_sec ||
                    (now.tv_sec == deadline.tv_sec && now.tv_nsec >= deadline.tv_nsec));
    }
    pool_nap = 0;
    assert_int_equal((uint32_t)atomic_load(&waited->waiters), 0);
    errno = 0;
    assert_null(stook_pool_alloc(waited, STOOK_NORECLAIM, &deadline)); /* does not wait */
    assert_int_equal(errno, ENOMEM);
    for (unsigned i = 0; i < 40; i++)
        stook_free(cache, unhold());
    deadline.tv_sec += 1000;
    object = stook_pool_alloc(waited, STOOK_WAIT, &deadline);
    assert_non_null(object);
    stook_pool_free(waited, object);
    assert_int_equal(stook_pool_destroy(waited), 0);
}

/* A call that may wait waits for objects, and not for room in its group: it fails at once, and no thread waits. */
TEST_WITH(at_a_limit, setup, teardown)
{
    struct stook_cache_args args = {.size = sizeof(args), .flags = STOOK_CACHE_ACCOUNT};
    struct stook_cache *charged = stook_cache_create("charged", SIZE, &args);
    struct stook_group one = stook_group_create("one", STOOK_NO_GROUP, 0), before;
    struct stook_pool *pool = charged ? stook_pool_create(charged, 2) : NULL;
    struct timespec deadline;
    void *object;

    assert_true(pool && one.id);
    clock_gettime(CLOCK_MONOTONIC, &deadline);
    deadline.tv_sec += 1000;
    before = stook_group_enter(one);
    errno = 0;
    assert_null(stook_pool_alloc(pool, STOOK_WAIT, NULL));
    assert_int_equal(errno, EDQUOT);
    errno = 0;
    assert_null(stook_pool_alloc(pool, STOOK_WAIT, &deadline));
    assert_int_equal(errno, EDQUOT);
    assert_int_equal((uint32_t)atomic_load(&pool->waiters), 0);
    assert_int_equal(stook_pool_available(pool), 2);
    stook_group_leave(before);
    object = stook_pool_alloc(pool, STOOK_WAIT, NULL);
    assert_non_null(object);
    stook_pool_free(pool, object);
    assert_int_equal(stook_pool_destroy(pool), 0);
    assert_int_equal(stook_group_destroy(one), 0);
    assert_int_equal(stook_cache_destroy(charged), 0);
}

/* ---- forks ---------------------------------------------------------------------------------- */

/* What threads were in the middle of is lost with them; the child counts what there is. */
static int use_in_child(void *arg)
{
    struct stook_pool *pool = arg;

    if ((uint32_t)atomic_load(&pool->waiters) == 0)
        return 1; /* it should have been inherited */
    exhaust();
    for (unsigned i = 0; i < 4; i++) {
        void *object = stook_pool_alloc(pool, 0, NULL);
        if (!object)
            return 2;
        hold(object);
    }
    if (stook_pool_alloc(pool, STOOK_NORECLAIM, NULL) || stook_pool_available(pool) != 0)
        return 3;
    for (unsigned i = 0; i < 8; i++)
        stook_pool_free(pool, unhold());
    if (stook_pool_available(pool) != 5)
        return 4;
    check_pool(pool);
    return 0;
}

TEST_WITH(fork_in_the_middle, setup, teardown)
{
    struct stook_pool *pool = stook_pool_create(cache, 5);
    void *one, *two;

    one = atomic_exchange(&pool->first[3], NULL); /* a taker: counted, exchanged */
    two = atomic_exchange(&pool->first[4], NULL); /* and a putter with a place and no word yet */
    atomic_fetch_sub(&pool->count, 2);
    atomic_fetch_add(&pool->waiters, 7);
    hold(one);
    /* Another one has taken its object and not withdrawn its place: 5 places for 3 objects. */
    hold(two);
    atomic_store(&pool->first[10], stook_alloc(cache, 0)); /* a putter that has not counted */
    in_child(use_in_child, pool);
    atomic_fetch_sub(&pool->waiters, 7);
    hold(atomic_exchange(&pool->first[10], NULL));
    atomic_fetch_sub(&pool->places, 2);
    check_pool(pool);
    assert_int_equal(stook_pool_destroy(pool), 0);
}

static int handler_in_child(void *arg)
{
    struct stook_pool *pool = arg;
    bool nested = context_enter(); /* the fork came from a handler in the middle of this */
    void *object;

    if (nested)
        return 1;
    object =
        stook_pool_alloc(pool, STOOK_SIGNAL_SAFE, NULL); /* a handler's: leaves the counts alone */
    if (object)
        stook_pool_free(pool, object);
    if (atomic_load(&pool->forks) == 2 * atomic_load(&fork_count))
        return 2;
    context_leave();
    exhaust();
    if (!stook_pool_alloc(pool, STOOK_NORECLAIM, NULL))
        return 3;
    return atomic_load(&pool->forks) == 2 * atomic_load(&fork_count) ? 0 : 4;
}

TEST_WITH(fork_from_a_handler, setup, teardown)
{
    struct stook_pool *pool = stook_pool_create(cache, 5);

    in_child(handler_in_child, pool);
    assert_int_equal(stook_pool_destroy(pool), 0);
}

TESTS_WITH_SETTING("STOOK_ARENA", "32M")
