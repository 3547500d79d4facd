/* SPDX-License-Identifier: MIT */
/* needs: whole native */
/*
 * Bags step by step: a put wakes a waiting thread and nothing else does, a child of a threaded program finds
 * what is there and no waiting threads.
 */
#include "reserve/pool.h"

#include "cache/init.h"
#include "support/test.h"

#include <stook/reserve.h>

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>

static int things[8];

static uint32_t waiting(struct stook_pool *bag)
{
    return pool_waiting((struct stook_pool *)(void *)bag);
}

/* A wake-up that comes late, for something that is gone, ends a wait as well: with nothing. */
static void *wait_for_one(void *bag)
{
    void *thing;

    do
        thing = stook_pool_take(bag, STOOK_WAIT);
    while (!thing);
    return thing;
}

/* With naps without end: a thread that is not woken never returns. */
TEST(a_put_wakes)
{
    pool_nap = 0;
    for (unsigned limit = 0; limit < 3; limit++) {
        struct stook_pool *bag = stook_pool_create_of(NULL, 0, limit);
        pthread_t thread[4];
        unsigned got = 0;
        for (int i = 0; i < 4; i++)
            assert_int_equal(pthread_create(&thread[i], NULL, wait_for_one, bag), 0);
        while (waiting(bag) < 4)
            sched_yield();
        for (int i = 0; i < 4; i++)
            while (!stook_pool_put(bag, &things[i])) /* full: no waiter has taken one yet */
                sched_yield();
        for (int i = 0; i < 4; i++) {
            void *thing;
            pthread_join(thread[i], &thing);
            got |= 1u << ((int *)thing - things);
        }
        assert_int_equal(got, 15); /* each once */
        assert_int_equal(waiting(bag), 0);
        assert_int_equal(stook_pool_available(bag), 0);
        assert_int_equal(stook_pool_put(bag, &things[0]), limit > 0);
        (void)stook_pool_destroy(bag);
    }
    pool_nap = 1000000000u;
}

TEST(a_wait_ends)
{
    struct stook_pool *bag = stook_pool_create_of(NULL, 0, 1);

    pool_nap = 1000000;
    assert_null(stook_pool_take(bag, STOOK_WAIT)); /* no thread puts */
    assert_int_equal(waiting(bag), 0);
    assert_int_equal(stook_pool_put(bag, &things[0]), 1);
    assert_ptr_equal(stook_pool_take(bag, STOOK_WAIT), &things[0]);
    (void)stook_pool_destroy(bag);
    pool_nap = 1000000000u;
}

static int child_uses(void *arg)
{
    const struct rlimit little = {30, 30};
    struct stook_pool *bag = arg;

    (void)setrlimit(RLIMIT_CPU, &little); /* a place that is never free: a search without end */
    if (stook_pool_take(bag, STOOK_NORECLAIM) != &things[1] || !stook_pool_put(bag, &things[1]))
        return 1;
    if (waiting(bag) != 0)
        return 2;
    return stook_pool_resize(bag, 7) != 0 || stook_pool_available(bag) != 2;
}

/* As if threads of the parent had a place each and no word yet, and others waited, when it forked. */
TEST(a_child_counts_anew)
{
    struct stook_pool *bag = stook_pool_create_of(NULL, 0, 4);
    struct stook_pool *pool = (struct stook_pool *)(void *)bag;

    assert_int_equal(stook_pool_put(bag, &things[0]), 1);
    assert_int_equal(stook_pool_put(bag, &things[1]), 1);
    pool->places += 2;
    pool->waiters += 3;
    in_child(child_uses, bag);
    pool->places -= 2;
    pool->waiters -= 3;
    (void)stook_pool_destroy(bag);
}

static struct stook_pool *handled;
static atomic_uint handlers;

static void handler(int signal)
{
    void *thing = stook_pool_take(handled, STOOK_NORECLAIM);

    if (thing && !stook_pool_put(handled, thing))
        abort(); /* there was room: it was just taken */
    atomic_fetch_add(&handlers, 1);
}

static void *interrupt(void *thread)
{
    while (atomic_load(&handlers) < 2000) {
        pthread_kill(*(pthread_t *)thread, SIGUSR1);
        sched_yield();
    }
    return NULL;
}

/* A handler takes and puts in the middle of what its thread takes and puts: nothing is lost. */
TEST(handlers_interrupt)
{
    const struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
    pthread_t self = pthread_self(), thread;
    unsigned seen = 0;
    void *thing;

    handled = stook_pool_create_of(NULL, 0, 4);
    for (int i = 0; i < 3; i++)
        assert_int_equal(stook_pool_put(handled, &things[i]), 1);
    assert_int_equal(sigaction(SIGUSR1, &action, NULL), 0);
    assert_int_equal(pthread_create(&thread, NULL, interrupt, &self), 0);
    while (atomic_load(&handlers) < 2000) {
        thing = stook_pool_take(handled, STOOK_NORECLAIM);
        assert_non_null(thing);
        assert_int_equal(stook_pool_put(handled, thing), 1);
    }
    pthread_join(thread, NULL);
    assert_int_equal(stook_pool_available(handled), 3);
    while ((thing = stook_pool_take(handled, STOOK_NORECLAIM)) != NULL)
        seen |= 1u << ((int *)thing - things);
    assert_int_equal(seen, 7);
    (void)stook_pool_destroy(handled);
}

/* What is too much stays in order until it is spilled, and the array has room for it. */
TEST(other_limits)
{
    struct stook_pool *bag = stook_pool_create_of(NULL, 0, 2);

    assert_int_equal(stook_pool_resize(bag, 8), 0);
    for (int i = 0; i < 8; i++)
        assert_int_equal(stook_pool_put(bag, &things[i]), 1);
    assert_int_equal(stook_pool_resize(bag, 3), 0);
    for (int i = 7; i > 2; i--)
        assert_ptr_equal(stook_pool_take(bag, STOOK_NORECLAIM), &things[i]);
    assert_int_equal(stook_pool_put(bag, &things[7]), 0);
    for (int i = 2; i >= 0; i--)
        assert_ptr_equal(stook_pool_take(bag, STOOK_NORECLAIM), &things[i]);
    assert_null(stook_pool_take(bag, STOOK_NORECLAIM));
    (void)stook_pool_destroy(bag);
}
