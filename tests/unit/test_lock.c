/* SPDX-License-Identifier: MIT */
#include "base/lock.h"

#include "support/test.h"

#include <pthread.h>
#include <sched.h>

TEST(try_and_enter)
{
    struct lock lock;

    lock_init(&lock);
    assert_true(lock_enter(&lock, LOCK_NODE, true));
    assert_false(lock_enter(&lock, LOCK_NODE, true));
    assert_false(lock_enter(&lock, LOCK_NODE, true));
    lock_drop(&lock, LOCK_NODE);
    assert_true(lock_enter(&lock, LOCK_NODE, true));
    lock_drop(&lock, LOCK_NODE);
    assert_true(lock_enter(&lock, LOCK_NODE, false));
    lock_drop(&lock, LOCK_NODE);
    assert_int_equal(atomic_load(&lock.word), 0);
}

enum { THREADS = 4, ROUNDS = 20000 };
static struct lock shared;
static long counter; /* under `shared` */

static void *count(void *unused)
{
    for (int i = 0; i < ROUNDS; i++) {
        errno = 17;
        lock_take(&shared, LOCK_ARENA);
        counter++;
        if (i % 512 == 0)
            sched_yield(); /* makes others sleep */
        lock_drop(&shared, LOCK_ARENA);
        if (errno != 17)
            return (void *)1;
    }
    return NULL;
}

TEST(excludes_and_keeps_errno)
{
    pthread_t thread[THREADS];
    void *failed;

    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, count, NULL), 0);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(thread[i], &failed);
        assert_null(failed);
    }
    assert_int_equal(counter, THREADS * ROUNDS);
    assert_int_equal(atomic_load(&shared.word), 0);
}

static atomic_bool through;

static void *sleeper(void *unused)
{
    lock_take(&shared, LOCK_ARENA);
    atomic_store(&through, true);
    lock_drop(&shared, LOCK_ARENA);
    return NULL;
}

TEST(wakes_a_sleeper)
{
    pthread_t thread;

    lock_take(&shared, LOCK_ARENA);
    assert_int_equal(pthread_create(&thread, NULL, sleeper, NULL), 0);
    while (atomic_load(&shared.word) != 2) /* it announced that it sleeps */
        usleep(1000);
    usleep(20000);
    assert_false(atomic_load(&through));
    lock_drop(&shared, LOCK_ARENA);
    pthread_join(thread, NULL);
    assert_true(atomic_load(&through));
}

TEST(holder_of_all_passes)
{
    struct lock lock;

    lock_init(&lock);
    lock_take(&lock, LOCK_NODE);
    context_tls.fork = FORK_HOLDING;
    lock_take(&lock, LOCK_NODE); /* would wait for itself */
    lock_drop(&lock, LOCK_NODE);
    assert_true(lock_enter(&lock, LOCK_NODE, true));
    lock_drop(&lock, LOCK_NODE);
    assert_int_equal(atomic_load(&lock.word), 1);
    context_tls.fork = FORK_NONE;
    lock_drop(&lock, LOCK_NODE);
    assert_int_equal(atomic_load(&lock.word), 0);
}

#ifdef STOOK_ASSERTIONS
static struct lock first, second;

static int take_in_order(void *unused)
{
    lock_take(&first, LOCK_CACHES);
    lock_take(&second, LOCK_NODE);
    lock_drop(&second, LOCK_NODE);
    lock_drop(&first, LOCK_CACHES);
    lock_take(&first, LOCK_NODE); /* what was dropped counts no more */
    lock_drop(&first, LOCK_NODE);
    lock_take(&first, LOCK_CACHES);
    return 0;
}

static int take_out_of_order(void *unused)
{
    lock_take(&first, LOCK_NODE);
    lock_take(&second, LOCK_BARN);
    return 0;
}

static int take_two_of_a_rank(void *unused)
{
    lock_take(&first, LOCK_NODE);
    lock_take(&second, LOCK_NODE);
    return 0;
}

static int try_out_of_order_in_handler(void *unused)
{
    context_enter();
    lock_take(&first, LOCK_ARENA);
    context_enter(); /* as a handler does */
    return lock_enter(&second, LOCK_CACHES, true) ? 0 : 1;
}

TEST(ranks)
{
    struct child child;

    child_run(&child, take_in_order, NULL);
    assert_true(child_passed(&child));
    child_run(&child, take_out_of_order, NULL);
    assert_true(
        child_died_saying(&child, "lock order: barn.lock is taken while node.lock is held"));
    child_run(&child, take_two_of_a_rank, NULL);
    assert_true(
        child_died_saying(&child, "lock order: node.lock is taken while node.lock is held"));
    child_run(&child, try_out_of_order_in_handler, NULL);
    assert_true(child_passed(&child));
}
#endif

/* A thread that a fork refused something asks when the fork is over, whenever that began. */
TEST(forked_since)
{
    uint32_t before = lock_turn(), during;

    assert_false(lock_forked_since(before));
    lock_begin_fork();
    during = lock_turn();
    assert_true(lock_forked_since(before));
    assert_true(lock_forked_since(during));
    lock_end_fork();
    assert_false(lock_forked());
    assert_true(lock_forked_since(before));
    assert_true(lock_forked_since(during));
    assert_false(lock_forked_since(lock_turn()));
}
