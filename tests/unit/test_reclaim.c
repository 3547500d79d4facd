/* SPDX-License-Identifier: MIT */
/* needs: whole native */
/*
 * Reclaim, in an arena of 32 MiB that a test uses up.  The calls that do it (WAIT only), and the order: the library's own
 * memory is first.  Also how often a callback runs, the calls that it may make, and how it is unregistered.
 */
#include "cache/reclaim.h"

#include "base/context.h"
#include "face/callbacks.h"
#include "sheaf/sheaf.h"
#include "slab/slab.h"
#include "support/check.h"
#include "support/environment.h"
#include "support/test.h"

#include <stook/reserve.h>
#include <stook/stook.h>

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

enum { SIZE = 30000, MOST = 40000 };

static struct stook_cache *filler, *cache; /* the filler's objects lie in slabs of their own */
static struct check_object held[MOST];
static size_t nheld;

static void hold(struct stook_cache *of, void *object)
{
    assert_non_null(object);
    assert_true(nheld < MOST);
    held[nheld++] = (struct check_object){of, object};
}

static void free_held(size_t down_to)
{
    while (nheld > down_to) {
        nheld--;
        stook_free(held[nheld].cache, held[nheld].object);
    }
}

static bool exhausting; /* callbacks do nothing meanwhile */

/* Takes all there is, also what only one of the caches finds a use for. */
static void exhaust(void)
{
    exhausting = true;
    for (int misses = 0; misses < 6;) {
        struct stook_cache *of = misses % 2 ? cache : filler;
        void *object = stook_alloc(of, 0);
        if (object)
            hold(of, object);
        misses = object ? 0 : misses + 1;
    }
    exhausting = false;
    assert_true(nheld > 300);
}

static int setup(void **unused)
{
    struct stook_cache_args args = {.size = sizeof(args), .sheaf_capacity = 64};

    filler = stook_cache_create("filler", SIZE, &args);
    cache = stook_cache_create("reclaims", SIZE, NULL);
    return filler && cache ? 0 : -1;
}

static int teardown(void **unused)
{
    free_held(0);
    check_all(NULL, 0);
    for (unsigned i = 0; i < STOOK_RECLAIM_MAX; i++)
        if (callbacks.entry[i].fn)
            return -1;
    return stook_cache_destroy(filler) | stook_cache_destroy(cache);
}

/* ---- callbacks ------------------------------------------------------------------------------ */

struct shelf {
    unsigned calls;
    unsigned frees;  /* objects of the test's freed a call */
    size_t says;     /* bytes a call, if not what it freed */
    size_t wanted;   /* the last */
    bool in_library; /* was, within a call */
};

static size_t give(size_t wanted, void *arg)
{
    struct shelf *shelf = arg;
    size_t bytes = 0;

    if (exhausting)
        return 0;
    shelf->calls++;
    shelf->wanted = wanted;
    shelf->in_library |= context_tls.depth > 0;
    for (unsigned i = 0; i < shelf->frees && nheld > 0; i++, bytes += SIZE)
        free_held(nheld - 1);
    errno = EDOM;
    return shelf->says ? shelf->says : bytes;
}

TEST_WITH(only_who_waits, setup, teardown)
{
    struct shelf shelf = {.frees = 20};
    void *objects[4];

    exhaust();
    assert_int_equal(stook_reclaim_register(give, &shelf), 0);
    errno = 0;
    assert_null(stook_alloc(cache, STOOK_NORECLAIM));
    assert_null(stook_alloc(cache, STOOK_SIGNAL_SAFE));
    assert_null(stook_alloc(cache, STOOK_NORECLAIM | STOOK_ZERO));
    assert_int_equal(stook_alloc_bulk(cache, STOOK_NORECLAIM, 4, objects), -1);
    assert_int_equal(stook_alloc_bulk(cache, STOOK_SIGNAL_SAFE | STOOK_ZERO, 4, objects), -1);
    assert_null(stook_sheaf_prefill(cache, STOOK_NORECLAIM, 2));
    assert_int_equal(errno, ENOMEM);
    assert_int_equal(shelf.calls, 0);
    errno = 17;
    hold(cache, stook_alloc(cache, STOOK_ZERO));
    assert_int_equal(errno, 17);
    assert_int_equal(shelf.calls, 1);
    assert_false(shelf.in_library);
    assert_true(shelf.wanted >= SIZE);
    assert_int_equal(shelf.wanted % 4096, 0);
    for (unsigned i = 0; i < SIZE; i++)
        assert_int_equal(((char *)held[nheld - 1].object)[i], 0);
    assert_int_equal(stook_reclaim_unregister(give, &shelf), 0);
}

/* A cache at its slab_bytes_max fails, or reclaims; another cache keeps what it has. */
TEST(limit_of_a_cache)
{
    struct stook_cache_args args = {.size = sizeof(args), .slab_bytes_max = 1 << 20};
    struct shelf shelf = {.frees = 0};
    unsigned long bytes;
    void *object;

    cache = stook_cache_create("limited", SIZE, &args);
    filler = stook_cache_create("unlimited", SIZE, NULL);
    assert_true(cache && filler);
    assert_int_equal(stook_reclaim_register(give, &shelf), 0);
    for (unsigned round = 0; round < 3; round++) {
        stook_free(filler, stook_alloc(filler, 0)); /* is cached, and stays so */
        while ((object = stook_alloc(cache, 0)) != NULL)
            hold(cache, object);
        assert_int_equal(errno, ENOMEM);
        bytes = (unsigned long)nheld * SIZE;
        assert_true(bytes > (1 << 20) * 3 / 4 && bytes <= 1 << 20);
        assert_int_equal(shelf.calls, round + 1); /* and it freed nothing */
        assert_null(stook_alloc(cache, STOOK_NORECLAIM));
        assert_int_equal(errno, ENOMEM);
        check_all(held, nheld);
        free_held(round == 1 ? nheld / 2 : 0); /* then some can be allocated again */
    }
    shelf.frees = 1;
    while (nheld < 30)
        hold(cache, stook_alloc(cache, 0));
    for (unsigned i = 0; i < 100; i++)
        hold(cache, stook_alloc(cache, 0)); /* the callback makes room */
    assert_true(shelf.calls > 50);
    assert_int_equal(stook_reclaim_unregister(give, &shelf), 0);
    free_held(0);
    args.slab_bytes_max = 4095;
    assert_null(stook_cache_create("limited", SIZE, &args));
    assert_int_equal(errno, E2BIG);
    assert_int_equal(stook_cache_destroy(filler) | stook_cache_destroy(cache), 0);
}

TEST_WITH(bulk_and_sheaves, setup, teardown)
{
    struct shelf shelf = {.frees = 100};
    struct stook_sheaf *sheaf;
    void *objects[60];
    unsigned calls;

    exhaust();
    assert_int_equal(stook_reclaim_register(give, &shelf), 0);
    assert_int_equal(stook_alloc_bulk(cache, 0, 60, objects), 0);
    assert_true(shelf.calls > 0);
    assert_true(shelf.wanted > (size_t)30 * SIZE);
    stook_free_bulk(cache, 60, objects);
    exhaust();
    calls = shelf.calls;
    sheaf = stook_sheaf_prefill(cache, 0, 50);
    assert_non_null(sheaf);
    assert_true(shelf.calls > calls);
    exhaust();
    calls = shelf.calls;
    assert_int_equal(stook_sheaf_refill(cache, 0, &sheaf, 90), 0);
    assert_int_equal(stook_sheaf_size(sheaf), 90);
    assert_true(shelf.calls > calls);
    stook_sheaf_return(cache, sheaf);
    /* More than there can ever be: all or nothing, and an end. */
    exhaust();
    calls = shelf.calls;
    errno = 0;
    shelf.frees = 1;
    static void *many[MOST];
    assert_int_equal(stook_alloc_bulk(cache, 0, MOST, many), -1);
    assert_int_equal(errno, ENOMEM);
    assert_int_equal(shelf.calls, calls + RECLAIM_ROUNDS);
    check_all(held, nheld);
    assert_int_equal(stook_reclaim_unregister(give, &shelf), 0);
}

TEST_WITH(bounded, setup, teardown)
{
    struct shelf liar = {.says = 1 << 20}, none = {0}, good = {0};

    exhaust();
    assert_int_equal(stook_reclaim_register(give, &none), 0);
    errno = 0;
    assert_null(stook_alloc(cache, 0));
    assert_int_equal(errno, ENOMEM);
    assert_int_equal(none.calls, 1); /* gave nothing: no second round */
    assert_int_equal(stook_reclaim_register(give, &liar), 0);
    assert_null(stook_alloc(cache, 0));
    assert_int_equal(liar.calls, RECLAIM_ROUNDS);
    assert_int_equal(none.calls, 1 + RECLAIM_ROUNDS); /* each once a round */
    assert_int_equal(stook_reclaim_register(give, &good), 0);
    good.frees = 20;
    hold(cache, stook_alloc(cache, 0));
    assert_int_equal(good.calls, 1); /* enough: no further round */
    assert_int_equal(liar.calls, RECLAIM_ROUNDS + 1);
    assert_int_equal(stook_reclaim_unregister(give, &liar), 0);
    assert_int_equal(stook_reclaim_unregister(give, &none), 0);
    assert_int_equal(stook_reclaim_unregister(give, &good), 0);
}

/* Objects in sheaves of another cache are the library's own to give: no callback is needed. */
TEST_WITH(own_first, setup, teardown)
{
    struct stook_sheaf *sheaf = stook_sheaf_prefill(filler, 0, 1); /* its class keeps a slab */
    struct shelf shelf = {.frees = 20};
    struct check_counts counts;

    exhaust();
    assert_int_equal(stook_reclaim_register(give, &shelf), 0);
    free_held(nheld - 40);
    for (struct sheaf *s = (void *)sheaf; s->size > 0;)
        hold(filler, stook_sheaf_alloc(filler, 0, sheaf));
    hold(slab_cache_of(sheaf), sheaf);
    check_count(filler, held, nheld, &counts);
    nheld--;
    assert_true(counts.cached >= 40);
    assert_null(stook_alloc(cache, STOOK_NORECLAIM));
    hold(cache, stook_alloc(cache, 0));
    assert_int_equal(shelf.calls, 0);
    stook_sheaf_return(filler, sheaf);
    assert_int_equal(stook_reclaim_unregister(give, &shelf), 0);
}

/* ---- what a callback may do ------------------------------------------------------------------ */

static unsigned depth, calls;

static size_t busy(size_t wanted, void *arg)
{
    struct stook_cache *temporary;
    void *object;
    int null;

    calls++;
    assert_int_equal(depth++, 0); /* what it allocates does not reclaim */
    errno = 0;
    assert_null(stook_alloc(cache, STOOK_WAIT));
    assert_int_equal(errno, ENOMEM);
    free_held(nheld - 30);
    (void)stook_cache_shrink(filler);
    object = stook_alloc(cache, STOOK_WAIT);
    assert_non_null(object);
    stook_free(cache, object);
    temporary = stook_cache_create("temporary", 300, NULL);
    assert_non_null(temporary);
    stook_free(temporary, stook_alloc(temporary, 0));
    assert_int_equal(stook_cache_destroy(temporary), 0);
    null = open("/dev/null", O_WRONLY);
    assert_int_equal(stook_report(null, STOOK_REPORT_JSON), 0);
    close(null);
    assert_int_equal(stook_reclaim_register(give, arg), 0);
    assert_int_equal(stook_reclaim_unregister(busy, arg), 0); /* itself: no deadlock */
    errno = 0;
    assert_int_equal(stook_reclaim_unregister(busy, arg), -1);
    assert_int_equal(errno, ENOENT);
    depth--;
    return 1;
}

TEST_WITH(anything_but_recursion, setup, teardown)
{
    struct shelf shelf = {0};

    exhaust();
    calls = 0;
    assert_int_equal(stook_reclaim_register(busy, &shelf), 0);
    hold(cache, stook_alloc(cache, 0));
    assert_int_equal(calls, 1);
    exhaust();
    assert_null(stook_alloc(cache, 0));
    assert_int_equal(calls, 1); /* it went */
    assert_true(shelf.calls > 0);
    assert_int_equal(stook_reclaim_unregister(give, &shelf), 0);
}

static size_t waits_for_a_pool(size_t wanted, void *arg)
{
    struct stook_pool *pool = arg;
    void *object = stook_pool_alloc(pool, STOOK_WAIT, NULL);

    calls++;
    assert_non_null(object); /* the reserve */
    errno = 0;
    assert_null(stook_pool_alloc(pool, STOOK_WAIT, NULL)); /* would wait for this very thread */
    assert_int_equal(errno, ENOMEM);
    stook_pool_free(pool, object);
    return 0;
}

TEST_WITH(pools_in_callbacks, setup, teardown)
{
    struct stook_pool *pool = stook_pool_create(cache, 1);

    calls = 0;
    exhaust();
    assert_int_equal(stook_reclaim_register(waits_for_a_pool, pool), 0);
    assert_null(stook_alloc(cache, 0));
    assert_int_equal(calls, 1);
    assert_int_equal(stook_reclaim_unregister(waits_for_a_pool, pool), 0);
    assert_int_equal(stook_pool_destroy(pool), 0);
}

/* Destructors that allocate while memory is reclaimed do not reclaim again. */
static unsigned destroyed;

static void destroy(void *object, void *arg)
{
    destroyed++;
    if (reclaim_inside == RECLAIM_DRAINING) {
        void *other = stook_alloc(cache, STOOK_WAIT);
        assert_int_equal(reclaim_inside, RECLAIM_DRAINING);
        if (other)
            stook_free(cache, other);
    }
}

TEST_WITH(destructors, setup, teardown)
{
    struct stook_cache_args args = {.size = sizeof(args), .dtor = destroy};
    struct stook_cache *nested = stook_cache_create("nested", 2000, &args);
    struct shelf shelf = {.frees = 40};
    void *objects[40];

    assert_int_equal(stook_alloc_bulk(nested, 0, 40, objects), 0);
    exhaust();
    stook_free_bulk(nested, 40, objects);
    destroyed = 0;
    assert_int_equal(stook_reclaim_register(give, &shelf), 0);
    hold(cache, stook_alloc(cache, 0));
    assert_true(destroyed >= 40);
    assert_true(shelf.calls <= 1);
    assert_int_equal(stook_reclaim_unregister(give, &shelf), 0);
    assert_int_equal(stook_cache_destroy(nested), 0);
}

/* ---- the list ------------------------------------------------------------------------------- */

TEST_WITH(list, setup, teardown)
{
    static struct shelf shelves[STOOK_RECLAIM_MAX + 1];

    errno = 0;
    assert_int_equal(stook_reclaim_register(NULL, NULL), -1);
    assert_int_equal(errno, EINVAL);
    errno = 0;
    assert_int_equal(stook_reclaim_unregister(NULL, NULL), -1);
    assert_int_equal(errno, EINVAL);
    errno = 0;
    assert_int_equal(stook_reclaim_unregister(give, NULL), -1);
    assert_int_equal(errno, ENOENT);
    for (unsigned i = 0; i < STOOK_RECLAIM_MAX; i++)
        assert_int_equal(stook_reclaim_register(give, &shelves[i]), 0);
    errno = 0;
    assert_int_equal(stook_reclaim_register(give, &shelves[7]), -1);
    assert_int_equal(errno, EEXIST);
    errno = 0;
    assert_int_equal(stook_reclaim_register(give, &shelves[STOOK_RECLAIM_MAX]), -1);
    assert_int_equal(errno, ENOSPC);
    exhaust();
    assert_null(stook_alloc(cache, 0));
    for (unsigned i = 0; i < STOOK_RECLAIM_MAX; i++) {
        assert_int_equal(shelves[i].calls, 1);
        shelves[i].calls = 0;
        if (i % 2)
            assert_int_equal(stook_reclaim_unregister(give, &shelves[i]), 0);
    }
    assert_null(stook_alloc(cache, 0));
    for (unsigned i = 0; i < STOOK_RECLAIM_MAX; i++)
        assert_int_equal(shelves[i].calls, i % 2 == 0);
    for (unsigned i = 0; i < STOOK_RECLAIM_MAX; i += 2)
        assert_int_equal(stook_reclaim_unregister(give, &shelves[i]), 0);
}

/* ---- threads and forks ------------------------------------------------------------------------ */

static atomic_uint stage, ended;

static size_t slow(size_t wanted, void *arg)
{
    atomic_fetch_add(&stage, 1);
    while (atomic_load(&stage) < 3)
        sched_yield();
    for (int i = 0; i < 100; i++)
        sched_yield();
    atomic_fetch_add(&ended, 1);
    return 0;
}

/* What the other thread's reclaim gave back may be had first; the callback is reached in the end. */
static void *allocate(void *got)
{
    void **object = got;

    while ((*object = stook_alloc(cache, 0)) != NULL)
        object++;
    return NULL;
}

static int unregister_in_child(void *arg)
{
    if (!callbacks.entry[0].fn || callbacks.entry[0].running != 0)
        return 1;
    return stook_reclaim_unregister(slow, NULL) == 0 ? 0 : 2; /* does not wait */
}

/* Two threads are in it at once; it is over for both when unregister returns. */
TEST_WITH(unregister_waits, setup, teardown)
{
    static void *got[2][MOST];
    pthread_t threads[2];

    exhaust();
    atomic_store(&stage, 0);
    atomic_store(&ended, 0);
    assert_int_equal(stook_reclaim_register(slow, NULL), 0);
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, allocate, got[i]), 0);
    while (atomic_load(&stage) < 2)
        sched_yield();
    in_child(unregister_in_child, NULL);
    atomic_store(&stage, 3);
    assert_int_equal(stook_reclaim_unregister(slow, NULL), 0);
    assert_int_equal(atomic_load(&ended), 2);
    for (int i = 0; i < 2; i++) {
        pthread_join(threads[i], NULL);
        for (void **object = got[i]; *object; object++)
            stook_free(cache, *object);
    }
}

static size_t forks(size_t wanted, void *arg);

static int child_of_callback(void *arg)
{
    if (callbacks.entry[0].running != 1 || stook_alloc(cache, 0))
        return 1;
    free_held(nheld - 100);
    (void)stook_cache_shrink(filler);
    if (!stook_alloc(cache, 0))
        return 2;
    return stook_reclaim_unregister(forks, NULL) == 0 ? 0 : 3; /* waits for itself no more */
}

static size_t forks(size_t wanted, void *arg)
{
    calls++;
    in_child(child_of_callback, NULL);
    return 0;
}

static void *forking(void *unused)
{
    assert_null(stook_alloc(cache, 0));
    return NULL;
}

/* With one thread and with two: fork takes locks then. */
TEST_WITH(fork_in_callback, setup, teardown)
{
    pthread_t thread;

    calls = 0;
    exhaust();
    assert_int_equal(stook_reclaim_register(forks, NULL), 0);
    forking(NULL);
    assert_int_equal(pthread_create(&thread, NULL, forking, NULL), 0);
    pthread_join(thread, NULL);
    assert_int_equal(calls, 2);
    assert_int_equal(stook_reclaim_unregister(forks, NULL), 0);
}

TESTS_WITH_SETTING("STOOK_ARENA", "32M")
