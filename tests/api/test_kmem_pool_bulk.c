/* SPDX-License-Identifier: MIT */
/*
 * Memory pools, several elements at a time.  A function fails in the middle, a reserve has too few, callers wait for
 * each other's elements.  Also pools of pages, and pools that are made on a node.
 */
#include "support/mempool_source.h"
#include "support/random.h"
#include "support/test.h"

#include <stook/kmem.h>

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <time.h>

static bool distinct(void *const *elements, int n)
{
    for (int i = 0; i < n; i++)
        for (int k = 0; k < i; k++)
            if (!elements[i] || elements[i] == elements[k])
                return false;
    return true;
}

/* ---- one caller ------------------------------------------------------------------------------ */

TEST(the_function_then_the_reserve)
{
    struct source source = {.allowed = 8};
    mempool_t *pool = mempool_create(5, source_alloc, source_free, &source);
    void *first[5], *element[5];

    assert_non_null(pool);
    errno = 7;
    assert_int_equal(mempool_alloc_bulk(pool, first, 3), 0);
    assert_int_equal(errno, 7);
    assert_int_equal(source.out, 8);
    assert_true(mempool_is_saturated(pool));
    /* Now the function fails at the first one, and the reserve has all. */
    source.asked_waiting = 0;
    assert_int_equal(mempool_alloc_bulk(pool, element, 5), 0);
    assert_true(distinct(element, 5));
    assert_int_equal(source.asked_waiting, 0); /* nothing waited: the reserve comes before that */
    assert_null(mempool_alloc_preallocated(pool));
    assert_null(mempool_alloc_noreserve(pool, GFP_KERNEL));
    /* In the middle: two are new, three of the reserve. */
    assert_int_equal(mempool_free_bulk(pool, element, 5), 5);
    source_free(first[0], &source);
    source_free(first[1], &source);
    assert_int_equal(mempool_alloc_bulk(pool, element, 5), 0);
    assert_true(distinct(element, 5));
    assert_int_equal(stook_pool_available(pool->bag), 2);
    assert_int_equal(source.out, 8);
    assert_int_equal(mempool_alloc_bulk(pool, NULL, 0), 0);
    mempool_free(first[2], pool);
    for (int i = 0; i < 5; i++)
        mempool_free(element[i], pool);
    assert_int_equal(source.out, 5);
    mempool_destroy(pool);
    assert_int_equal(source.out, 0);
}

TEST(the_reserve_takes_what_it_needs)
{
    struct source source = {.allowed = 100};
    mempool_t pool;
    void *element[10], *spare[3];

    assert_int_equal(mempool_init_node(&pool, 4, source_alloc, source_free, &source, GFP_NOIO, 0),
                     0);
    for (int i = 0; i < 3; i++)
        assert_non_null(spare[i] = mempool_alloc_preallocated(&pool));
    assert_int_equal(mempool_alloc_bulk(&pool, element, 10),
                     0); /* more than the reserve ever has */
    assert_true(distinct(element, 10));
    /* Three places are free; the others are the caller's. */
    assert_int_equal(mempool_free_bulk(&pool, element, 10), 3);
    assert_true(mempool_is_saturated(&pool));
    assert_int_equal(mempool_free_bulk(&pool, element + 3, 7), 0);
    assert_int_equal(mempool_free_bulk(&pool, element, 0), 0);
    for (int i = 3; i < 10; i++)
        mempool_free(element[i], &pool);
    for (int i = 0; i < 3; i++)
        mempool_free(spare[i], &pool);
    mempool_exit(&pool);
    mempool_exit(&pool);
    assert_int_equal(source.out, 0);
    /* It cannot be filled: nothing stays. */
    source.allowed = 2;
    assert_int_equal(
        mempool_init_node(&pool, 4, source_alloc, source_free, &source, GFP_KERNEL, NUMA_NO_NODE),
        -ENOMEM);
    assert_int_equal(source.out, 0);
    assert_int_equal(
        mempool_init_node(&pool, -1, source_alloc, source_free, &source, GFP_KERNEL, 0), -EINVAL);
    assert_null(mempool_create_node(1, source_alloc, source_free, &source,
                                    GFP_KERNEL | __GFP_THISNODE, 4711));
}

/* ---- several callers ------------------------------------------------------------------------- */

struct waiter {
    mempool_t *pool;
    void *element[4];
    atomic_bool done;
};

static void *waiter_run(void *arg)
{
    struct waiter *waiter = arg;

    mempool_alloc_bulk(waiter->pool, waiter->element, 4);
    atomic_store(&waiter->done, true);
    return NULL;
}

/* One place after the other becomes free; the caller needs all four at once. */
TEST(waits_for_all_of_them)
{
    struct source source = {.allowed = 4};
    mempool_t *pool = mempool_create(4, source_alloc, source_free, &source);
    struct waiter waiter = {.pool = pool};
    void *mine[4];
    pthread_t thread;

    assert_int_equal(mempool_alloc_bulk(pool, mine, 4), 0);
    assert_int_equal(pthread_create(&thread, NULL, waiter_run, &waiter), 0);
    for (int i = 0; i < 3; i++) {
        mempool_free(mine[i], pool);
        nanosleep(&(struct timespec){0, 20000000}, NULL);
        assert_false(atomic_load(&waiter.done));
    }
    mempool_free(mine[3], pool);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_true(distinct(waiter.element, 4));
    assert_int_equal(source.out, 4);
    assert_int_equal(mempool_free_bulk(pool, waiter.element, 4), 4);
    mempool_destroy(pool);
    assert_int_equal(source.out, 0);
}

enum { THREADS = 4, ROUNDS = 400, RESERVE = 5 };

struct crowd {
    mempool_t *pool;
    uint64_t seed;
    bool wrong;
};

/* Each takes up to the whole reserve by one call, and gives it back.  If a call kept elements while it waits, all calls
 * would wait for each other. */
static void *crowd_run(void *arg)
{
    struct crowd *crowd = arg;
    void *element[RESERVE];

    for (int i = 0; i < ROUNDS; i++) {
        unsigned n = 1 + (unsigned)random_below(&crowd->seed, RESERVE), put;
        if (mempool_alloc_bulk(crowd->pool, element, n) != 0 || !distinct(element, (int)n))
            crowd->wrong = true;
        for (unsigned k = 0; k < n; k++)
            if (__atomic_fetch_add((int *)element[k], 1, __ATOMIC_RELAXED) != 0)
                crowd->wrong = true;
        if (i % 8 == 0)
            sched_yield();
        for (unsigned k = 0; k < n; k++)
            __atomic_fetch_sub((int *)element[k], 1, __ATOMIC_RELAXED);
        put = i % 2 ? mempool_free_bulk(crowd->pool, element, n) : 0;
        while (put < n)
            mempool_free(element[put++], crowd->pool);
    }
    return NULL;
}

TEST(all_get_on)
{
    const int allowed[] = {RESERVE, RESERVE + 2, 1000};

    for (size_t round = 0; round < sizeof(allowed) / sizeof(allowed[0]); round++) {
        struct source source = {.allowed = allowed[round]};
        mempool_t *pool = mempool_create(RESERVE, source_alloc, source_free, &source);
        struct crowd crowd[THREADS];
        pthread_t thread[THREADS];
        for (int i = 0; i < THREADS; i++) {
            crowd[i] = (struct crowd){pool, (uint64_t)i, false};
            assert_int_equal(pthread_create(&thread[i], NULL, crowd_run, &crowd[i]), 0);
        }
        for (int i = 0; i < THREADS; i++) {
            pthread_join(thread[i], NULL);
            assert_false(crowd[i].wrong);
        }
        assert_true(mempool_is_saturated(pool));
        mempool_destroy(pool);
        assert_int_equal(source.out, 0);
    }
}

/* ---- pages ----------------------------------------------------------------------------------- */

TEST(pages)
{
    mempool_t *pool = mempool_create_page_pool(3, 2), embedded;
    struct page *page[8], *alone;
    char *bytes;

    assert_non_null(pool);
    for (int i = 0; i < 8; i++) {
        assert_non_null(page[i] = mempool_alloc(pool, GFP_KERNEL));
        bytes = page_address(page[i]);
        assert_int_equal((uintptr_t)bytes % 16384, 0);
        assert_ptr_equal(virt_to_page(bytes), page[i]);
        memset(bytes, i, 16384);
    }
    for (int i = 0; i < 8; i++) {
        assert_int_equal(((char *)page_address(page[i]))[16383], i);
        mempool_free(page[i], pool);
    }
    mempool_destroy(pool);
    assert_int_equal(mempool_init_page_pool(&embedded, 1, 0), 0);
    assert_non_null(alone = mempool_alloc(&embedded, GFP_NOIO));
    mempool_free(alone, &embedded);
    mempool_exit(&embedded);
    assert_non_null(alone = alloc_page(GFP_KERNEL | __GFP_ZERO));
    for (int i = 0; i < 4096; i++)
        assert_int_equal(((char *)page_address(alone))[i], 0);
    __free_page(alone);
    assert_non_null(alone = alloc_pages(GFP_KERNEL, 10));
    __free_pages(alone, 10);
    assert_null(alloc_pages(GFP_KERNEL, 11)); /* beyond the kernel's orders */
    assert_null(mempool_create_page_pool(1, 11));
    assert_null(mempool_create_page_pool(1, -1));
}
