/* SPDX-License-Identifier: MIT */
/*
 * Memory pools by the kernel's names, over functions of the test that fail on request, over caches
 * and over kmalloc().  A reserve can be used, callers that may wait get an element, none
 * is lost or allocated twice; in threads, signal handlers and children.
 */
#include "support/mempool_source.h"
#include "support/random.h"
#include "support/test.h"

#include <stook/kmem.h>
#include <stook/reserve.h>

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <time.h>

/* ---- elements of the test's own -------------------------------------------------------------- */

TEST(the_reserve_is_there)
{
    struct source source = {.allowed = 10};
    mempool_t *pool = mempool_create(4, source_alloc, source_free, &source);
    void *element[10];

    assert_non_null(pool);
    assert_int_equal(source.out, 4);
    assert_int_equal(pool->min_nr, 4);
    assert_true(mempool_initialized(pool) && mempool_is_saturated(pool));
    for (int i = 0; i < 10; i++) { /* the reserve is what comes last */
        assert_non_null(element[i] = mempool_alloc(pool, GFP_NOWAIT));
        assert_int_equal(mempool_is_saturated(pool), i < 6);
    }
    errno = 0;
    assert_null(mempool_alloc(pool, GFP_ATOMIC));
    assert_int_equal(errno, ENOMEM);
    assert_int_equal(source.out, 10);
    for (int i = 0; i < 10; i++) { /* and is filled first */
        assert_int_equal(source.out, i < 4 ? 10 : 14 - i);
        mempool_free(element[i], pool);
    }
    mempool_free(NULL, pool);
    assert_true(mempool_is_saturated(pool));
    assert_int_equal(source.out, 4);
    errno = 7;
    element[0] = mempool_alloc_preallocated(pool);
    assert_non_null(element[0]);
    assert_int_equal(errno, 7);
    assert_int_equal(source.out, 4);
    mempool_free(element[0], pool);
    /* The reserve's elements are no zeros. */
    assert_null(mempool_alloc(pool, GFP_KERNEL | __GFP_ZERO));
    assert_int_equal(errno, EINVAL);
    mempool_destroy(pool);
    assert_int_equal(source.out, 0);
    mempool_destroy(NULL);
}

TEST(who_may_not_wait_is_not_asked_to)
{
    struct source source = {.allowed = 1};
    mempool_t pool;
    void *element;

    assert_int_equal(mempool_init(&pool, 1, source_alloc, source_free, &source), 0);
    atomic_store(&source.asked_waiting, 0);
    element = mempool_alloc(&pool, GFP_KERNEL); /* without waiting, then from the reserve */
    assert_non_null(element);
    assert_int_equal(source.asked_waiting, 0);
    assert_null(mempool_alloc(&pool, GFP_ATOMIC));
    assert_int_equal(source.asked_waiting, 0);
    mempool_free(element, &pool);
    mempool_exit(&pool);
    assert_false(mempool_initialized(&pool));
    mempool_exit(&pool); /* once more is fine */
    memset(&pool, 0, sizeof(pool));
    mempool_exit(&pool);
    assert_int_equal(source.out, 0);
}

TEST(cannot_be_filled)
{
    struct source source = {.allowed = 3};
    mempool_t pool;

    assert_null(mempool_create(4, source_alloc, source_free, &source));
    assert_int_equal(source.out, 0);
    assert_int_equal(mempool_init(&pool, 4, source_alloc, source_free, &source), -ENOMEM);
    assert_int_equal(source.out, 0);
    assert_int_equal(mempool_init(&pool, -1, source_alloc, source_free, &source), -EINVAL);
    assert_int_equal(mempool_init(&pool, INT32_MAX, source_alloc, source_free, &source), -ENOMEM);
    assert_int_equal(source.out, 0);
}

TEST(resized)
{
    struct source source = {.allowed = 20};
    mempool_t *pool = mempool_create(4, source_alloc, source_free, &source);
    void *element[20];

    assert_int_equal(mempool_resize(pool, 12), 0);
    assert_int_equal(source.out, 12);
    assert_int_equal(pool->min_nr, 12);
    assert_int_equal(mempool_resize(pool, 2), 0);
    assert_int_equal(source.out, 2);
    assert_int_equal(mempool_resize(pool, 0), 0);
    assert_int_equal(source.out, 0);
    /* More than there is: filled as far as can be, the rest by what comes back. */
    for (int i = 0; i < 15; i++)
        assert_non_null(element[i] = mempool_alloc(pool, GFP_NOWAIT));
    assert_int_equal(mempool_resize(pool, 8), 0);
    assert_int_equal(source.out, 20);
    assert_false(mempool_is_saturated(pool));
    for (int i = 0; i < 15; i++)
        mempool_free(element[i], pool);
    assert_true(mempool_is_saturated(pool));
    assert_int_equal(source.out, 8);
    assert_int_equal(mempool_resize(pool, -1), -EINVAL);
    assert_int_equal(mempool_resize(pool, INT32_MAX), -ENOMEM);
    assert_int_equal(source.out, 8);
    mempool_destroy(pool);
    assert_int_equal(source.out, 0);
}

/* ---- over caches and kmalloc ----------------------------------------------------------------- */

TEST(slab_and_kmalloc_pools)
{
    struct kmem_cache *cache = kmem_cache_create("bio", 200, 0, 0, NULL);
    mempool_t *slab = mempool_create_slab_pool(16, cache);
    mempool_t *sized = mempool_create_kmalloc_pool(3, 5000);
    mempool_t *large = mempool_create_node(2, mempool_kmalloc, mempool_kfree,
                                           (void *)(uintptr_t)100000, GFP_KERNEL, NUMA_NO_NODE);
    mempool_t embedded[2];
    void *element[40];

    assert_int_equal(mempool_init_slab_pool(&embedded[0], 2, cache), 0);
    assert_int_equal(mempool_init_kmalloc_pool(&embedded[1], 2, 64), 0);
    for (int i = 0; i < 40; i++) {
        assert_non_null(element[i] = mempool_alloc(slab, GFP_NOIO));
        assert_true(ksize(element[i]) >= 200);
        memset(element[i], i, 200);
    }
    for (int i = 0; i < 40; i++) {
        assert_int_equal(((char *)element[i])[199], i);
        mempool_free(element[i], slab);
    }
    element[0] = mempool_alloc(sized, GFP_KERNEL);
    element[1] = mempool_alloc(large, GFP_KERNEL);
    element[2] = mempool_alloc(&embedded[0], GFP_KERNEL);
    element[3] = mempool_alloc(&embedded[1], GFP_KERNEL);
    assert_true(ksize(element[0]) >= 5000 && ksize(element[1]) >= 100000);
    assert_true(ksize(element[2]) >= 200 && ksize(element[3]) >= 64);
    mempool_free(element[0], sized);
    mempool_free(element[1], large);
    mempool_free(element[2], &embedded[0]);
    mempool_free(element[3], &embedded[1]);
    mempool_exit(&embedded[0]);
    mempool_exit(&embedded[1]);
    mempool_destroy(slab);
    mempool_destroy(sized);
    mempool_destroy(large);
    assert_int_equal(stook_cache_destroy(kmem_stook_cache(cache)), 0);
}

/* ---- waiting --------------------------------------------------------------------------------- */

enum { THREADS = 4, ROUNDS = 4000 };

struct crowd {
    mempool_t *pool;
    gfp_t gfp;
    uint64_t seed;
};

/* Each element is one thread's at a time. */
static void *crowd_run(void *arg)
{
    struct crowd *crowd = arg;
    uint64_t random = crowd->seed;

    for (int i = 0; i < ROUNDS; i++) {
        int *element = mempool_alloc(crowd->pool, crowd->gfp);
        if (!element && !(crowd->gfp & __GFP_DIRECT_RECLAIM))
            continue;
        assert_non_null(element);
        assert_int_equal(element[0]++, 0);
        if (random_below(&random, 8) == 0)
            sched_yield();
        assert_int_equal(--element[0], 0);
        mempool_free(element, crowd->pool);
    }
    return NULL;
}

static void crowd(int min, int allowed, const gfp_t *gfp)
{
    struct source source = {.allowed = allowed};
    mempool_t *pool = mempool_create(min, source_alloc, source_free, &source);
    struct crowd crowd[THREADS];
    pthread_t thread[THREADS];

    assert_non_null(pool);
    for (int i = 0; i < THREADS; i++) {
        crowd[i] = (struct crowd){pool, gfp[i % 2], (uint64_t)i};
        assert_int_equal(pthread_create(&thread[i], NULL, crowd_run, &crowd[i]), 0);
    }
    for (int i = 0; i < 50 && min > 0; i++) /* beside them all */
        assert_int_equal(mempool_resize(pool, 1 + i % (2 * min)), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    mempool_destroy(pool);
    assert_int_equal(source.out, 0);
}

/* Fewer elements than threads: those that may wait get one each time. */
TEST(who_may_wait_never_fails)
{
    const gfp_t waiting[] = {GFP_KERNEL, GFP_NOIO}, mixed[] = {GFP_NOFS | __GFP_NOFAIL, GFP_ATOMIC};

    crowd(1, 1, waiting);
    crowd(2, 2, mixed);
    crowd(3, 1000, waiting);
    crowd(2, 3, mixed);
}

struct waiter {
    mempool_t *pool;
    void *element;
    atomic_bool done;
};

static void *waiter_run(void *arg)
{
    struct waiter *waiter = arg;

    waiter->element = mempool_alloc(waiter->pool, GFP_NOIO);
    atomic_store(&waiter->done, true);
    return NULL;
}

/* Also of a pool that keeps none. */
TEST(a_free_wakes)
{
    for (int min = 0; min < 2; min++) {
        struct source source = {.allowed = 1};
        mempool_t *pool = mempool_create(min, source_alloc, source_free, &source);
        struct waiter waiter = {.pool = pool};
        void *element = mempool_alloc(pool, GFP_ATOMIC);
        pthread_t thread;
        assert_non_null(element);
        assert_int_equal(pthread_create(&thread, NULL, waiter_run, &waiter), 0);
        while (source.asked_waiting == (unsigned)min) /* until it found that there is nothing */
            sched_yield();
        assert_false(atomic_load(&waiter.done));
        mempool_free(element, pool);
        pthread_join(thread, NULL);
        assert_true(atomic_load(&waiter.done));
        assert_non_null(waiter.element);
        mempool_free(waiter.element, pool);
        mempool_destroy(pool);
        assert_int_equal(source.out, 0);
    }
}

/* ---- handlers and children ------------------------------------------------------------------- */

static mempool_t *common;
static volatile sig_atomic_t interrupts;

static void handler(int unused)
{
    int saved = errno, *element = mempool_alloc(common, GFP_ATOMIC);

    if (element) {
        if (element[0]++ != 0)
            abort();
        element[0]--;
        mempool_free(element, common);
    }
    interrupts++;
    errno = saved;
}

/* It interrupts every step of the same pool. */
TEST(in_handlers)
{
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGALRM};
    const struct itimerspec often = {{0, 30000}, {0, 30000}}, never = {{0, 0}, {0, 0}};
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
    struct source source = {.allowed = 3};
    struct crowd crowd = {.gfp = GFP_ATOMIC, .seed = 1};
    timer_t timer;

    common = crowd.pool = mempool_create(2, source_alloc, source_free, &source);
    assert_int_equal(sigaction(SIGALRM, &action, NULL), 0);
    assert_int_equal(timer_create(CLOCK_MONOTONIC, &event, &timer), 0);
    assert_int_equal(timer_settime(timer, 0, &often, NULL), 0);
    do {
        crowd_run(&crowd);
    } while (interrupts < 200);
    assert_int_equal(timer_settime(timer, 0, &never, NULL), 0);
    timer_delete(timer);
    mempool_destroy(common);
    assert_int_equal(source.out, 0);
}

static atomic_bool stop;

static void *busy(void *arg)
{
    struct crowd crowd = {.pool = arg, .gfp = GFP_ATOMIC, .seed = 2};

    while (!atomic_load(&stop))
        crowd_run(&crowd);
    return NULL;
}

/* A lock that a thread of the parent held is free in the child. */
TEST(in_children)
{
    struct source source = {.allowed = 40};
    mempool_t *pool = mempool_create(30, source_alloc, source_free, &source);
    const struct rlimit little = {30, 30}; /* seconds */
    pthread_t thread[2];

    /* Where programs are emulated fork() of threaded ones hangs; with one thread it is a fork too. */
    int threads = getenv("STOOK_EMULATED") ? 0 : 2;
    atomic_store(&source.allowed, 30); /* all is from the reserve */
    for (int i = 0; i < threads; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, busy, pool), 0);
    for (int i = 0; i < 50; i++) {
        int status;
        pid_t pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) {
            void *element[20];
            (void)setrlimit(RLIMIT_CPU,
                            &little); /* a lock that no thread drops: signals are blocked */
            for (int k = 0; k < 20; k++)
                if (!(element[k] = mempool_alloc(pool, GFP_NOIO)))
                    _exit(1);
            for (int k = 0; k < 20; k++)
                mempool_free(element[k], pool);
            _exit(mempool_resize(pool, 40) != 0);
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_int_equal(status, 0);
    }
    atomic_store(&stop, true);
    for (int i = 0; i < threads; i++)
        pthread_join(thread[i], NULL);
    mempool_destroy(pool);
    assert_int_equal(source.out, 0);
}

/* ---- bags ------------------------------------------------------------------------------------ */

TEST(a_bag)
{
    struct stook_pool *bag = stook_pool_create_of(NULL, 0, 2);
    int a, b, c;

    assert_null(stook_pool_take(bag, STOOK_NORECLAIM));
    assert_int_equal(stook_pool_put(bag, &a), 1);
    assert_int_equal(stook_pool_put(bag, &b), 1);
    assert_int_equal(stook_pool_put(bag, &c), 0);
    assert_int_equal(stook_pool_resize(bag, 1), 0);
    assert_int_equal(stook_pool_available(bag), 2);
    assert_ptr_equal(stook_pool_take(bag, STOOK_NORECLAIM), &b);
    assert_int_equal(stook_pool_put(bag, &b), 0); /* it is full */
    assert_ptr_equal(stook_pool_take(bag, STOOK_WAIT), &a);
    errno = 0;
    assert_null(stook_pool_create_of(NULL, 0, STOOK_POOL_OBJECTS_MAX + 1));
    assert_int_equal(errno, E2BIG);
    assert_int_equal(stook_pool_resize(bag, STOOK_POOL_OBJECTS_MAX + 1), -1);
    (void)stook_pool_destroy(bag);
    (void)stook_pool_destroy(NULL);
}
