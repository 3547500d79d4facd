/* SPDX-License-Identifier: MIT */
/* needs: whole native */
/*
 * Bags step by step: who waits is woken by a put and by nothing else, a child finds no lock held and
 * nobody waiting, what a handler may interrupt is whole.
 */
#include "reserve/bag.h"

#include "cache/init.h"
#include "support/child.h"

#include <stook/kmem_private.h>

#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/resource.h>

#include <cmocka.h>

static int things[8];

/* A wake-up that comes late, for something that is gone, ends a wait as well: with nothing. */
static void *wait_for_one(void *bag)
{
    void *thing;

    do
        thing = stook_kmem_bag_wait(bag);
    while (!thing);
    return thing;
}

/* With naps without end: whoever is not woken never comes back. */
static void a_put_wakes(void **unused)
{
    (void)unused;
    bag_nap = 0;
    for (unsigned limit = 0; limit < 3; limit++) {
        struct stook_kmem_bag *bag = stook_kmem_bag_create(limit);
        pthread_t thread[4];
        unsigned got = 0;
        for (int i = 0; i < 4; i++)
            assert_int_equal(pthread_create(&thread[i], NULL, wait_for_one, bag), 0);
        while (atomic_load(&bag->waiters) < 4)
            sched_yield();
        for (int i = 0; i < 4; i++)
            while (!stook_kmem_bag_put(bag, &things[i])) /* full: who was woken is on the way */
                sched_yield();
        for (int i = 0; i < 4; i++) {
            void *thing;
            pthread_join(thread[i], &thing);
            got |= 1u << ((int *)thing - things);
        }
        assert_int_equal(got, 15); /* each once */
        assert_int_equal(bag->waiters, 0);
        assert_int_equal(stook_kmem_bag_count(bag), 0);
        assert_int_equal(stook_kmem_bag_put(bag, &things[0]), limit > 0);
        stook_kmem_bag_destroy(bag);
    }
    bag_nap = 1000000000u;
}

static void a_wait_ends(void **unused)
{
    struct stook_kmem_bag *bag = stook_kmem_bag_create(1);

    (void)unused;
    bag_nap = 1000000;
    assert_null(stook_kmem_bag_wait(bag)); /* nobody puts */
    assert_int_equal(bag->waiters, 0);
    assert_int_equal(stook_kmem_bag_put(bag, &things[0]), 1);
    assert_ptr_equal(stook_kmem_bag_wait(bag), &things[0]);
    stook_kmem_bag_destroy(bag);
    bag_nap = 1000000000u;
}

static int child_uses(void *arg)
{
    const struct rlimit little = {30, 30};
    struct stook_kmem_bag *bag = arg;

    (void)setrlimit(RLIMIT_CPU, &little); /* a lock that nobody drops: signals are blocked */
    if (stook_kmem_bag_take(bag) != &things[1] || !stook_kmem_bag_put(bag, &things[1]))
        return 1;
    if (bag->waiters != 0 || bag->lock != 0)
        return 2;
    return stook_kmem_bag_resize(bag, 7) != 0 || stook_kmem_bag_count(bag) != 2;
}

/* As if a thread of the parent held the lock, and others waited, when it forked. */
static void a_child_finds_it_free(void **unused)
{
    struct stook_kmem_bag *bag = stook_kmem_bag_create(4);
    struct child child;

    (void)unused;
    assert_int_equal(stook_kmem_bag_put(bag, &things[0]), 1);
    assert_int_equal(stook_kmem_bag_put(bag, &things[1]), 1);
    bag->lock = 4 * fork_count + 3;
    bag->waiters = 3;
    child_run(&child, child_uses, bag);
    assert_true(child_passed(&child));
    bag->lock = 0;
    bag->waiters = 0;
    stook_kmem_bag_destroy(bag);
}

/* Signals wait while the lock is held, and no longer. */
static void signals(void **unused)
{
    struct stook_kmem_bag *bag = stook_kmem_bag_create(1);
    sigset_t before, now;

    (void)unused;
    sigemptyset(&before);
    sigaddset(&before, SIGUSR1);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    stook_kmem_bag_put(bag, &things[0]);
    stook_kmem_bag_take(bag);
    (void)stook_kmem_bag_resize(bag, 3);
    pthread_sigmask(SIG_SETMASK, NULL, &now);
    for (int i = 1; i < 32; i++)
        if (i != SIGKILL && i != SIGSTOP)
            assert_int_equal(sigismember(&now, i), i == SIGUSR1);
    sigemptyset(&before);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    stook_kmem_bag_destroy(bag);
}

/* What is too much stays in order until it is spilled, and the array has room for it. */
static void other_limits(void **unused)
{
    struct stook_kmem_bag *bag = stook_kmem_bag_create(2);

    (void)unused;
    assert_int_equal(stook_kmem_bag_resize(bag, 8), 0);
    for (int i = 0; i < 8; i++)
        assert_int_equal(stook_kmem_bag_put(bag, &things[i]), 1);
    assert_int_equal(stook_kmem_bag_resize(bag, 3), 0);
    assert_int_equal(bag->room, 8);
    for (int i = 7; i > 2; i--)
        assert_ptr_equal(stook_kmem_bag_spill(bag), &things[i]);
    assert_null(stook_kmem_bag_spill(bag));
    assert_int_equal(stook_kmem_bag_put(bag, &things[7]), 0);
    for (int i = 2; i >= 0; i--)
        assert_ptr_equal(stook_kmem_bag_take(bag), &things[i]);
    assert_null(stook_kmem_bag_take(bag));
    stook_kmem_bag_destroy(bag);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_put_wakes),           cmocka_unit_test(a_wait_ends),
        cmocka_unit_test(a_child_finds_it_free), cmocka_unit_test(signals),
        cmocka_unit_test(other_limits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
