/* SPDX-License-Identifier: MIT */
/* needs: whole */
/*
 * Deferred frees step by step: sheaves that fill, that are passed to the RCU and that return, and threads that wait.
 * Nothing is written to an object until its readers are gone.
 */
#include "support/child.h"
#include "support/rcu_by_hand.h"

#include <stook/rcu.h>

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- setting it, first of all ------------------------------------------------------------------ */

static int defer_without_rcu(void *unused)
{
    struct stook_cache *c = stook_cache_create("early", 64, NULL);

    stook_free_rcu(c, NULL); /* that is nothing */
    stook_free_rcu(c, stook_alloc(c, 0));
    return 0;
}

TEST(before_it_is_set)
{
    struct stook_cache_args args = {.size = sizeof(args), .flags = STOOK_CACHE_TYPESAFE};
    static struct child child;

    child_run(&child, defer_without_rcu, NULL);
    assert_true(
        child_died_saying(&child, "cache early: stook_free_rcu() before stook_rcu_set_ops()"));
    stook_rcu_barrier();
    errno = 0;
    assert_null(stook_cache_create("stable", 64, &args));
    assert_int_equal(errno, ENOTSUP);
}

TEST(set)
{
    struct stook_rcu_ops other = ops;
    struct {
        struct stook_rcu_ops ops;
        long later;
    } longer = {ops, 1};

    errno = 0;
    assert_int_equal(stook_rcu_set_ops(NULL), -1);
    assert_int_equal(errno, EINVAL);
    other.size = offsetof(struct stook_rcu_ops, synchronize);
    assert_int_equal(stook_rcu_set_ops(&other), -1);
    other = ops;
    other.call = NULL;
    assert_int_equal(stook_rcu_set_ops(&other), -1);
    other = ops;
    other.barrier = NULL;
    assert_int_equal(stook_rcu_set_ops(&other), -1);
    longer.ops.size = sizeof(longer);
    errno = 0;
    assert_int_equal(stook_rcu_set_ops(&longer.ops), -1);
    assert_int_equal(errno, EINVAL);
    longer.later = 0;
    assert_int_equal(stook_rcu_set_ops(&longer.ops), 0);
    assert_int_equal(stook_rcu_set_ops(&ops), 0); /* the same */
    other = ops;
    other.reading = NULL;
    errno = 0;
    assert_int_equal(stook_rcu_set_ops(&other), -1);
    assert_int_equal(errno, EBUSY);
}

/* ---- one CPU's sheaf ----------------------------------------------------------------------------- */

TEST_WITH(gather, setup, teardown)
{
    take(2 * limit);
    defer(limit - 1);
    assert_int_equal(queued, 0);
    assert_int_equal(slot_here()->rcu->size, limit - 1);
    check();
    defer(1); /* full: one callback */
    assert_int_equal(queued, 1);
    assert_null(slot_here()->rcu);
    unchanged(limit);
    assert_int_equal(cache->nodes[0].barn.nr_full, 0);
    pass();
    assert_int_equal(cache->nodes[0].barn.nr_full, 1); /* as a whole */
    assert_int_equal(cache->nodes[0].barn.full->size, limit);
    check();
    stook_free_rcu(cache, NULL);
    assert_null(slot_here()->rcu);
}

TEST_WITH(barn_refuses, setup, teardown)
{
    take(20 * limit);
    cache->nodes[0].barn.full_limit = 0;
    defer(limit);
    pass();
    assert_int_equal(cache->nodes[0].barn.nr_full, 0);
    check();
}

TEST_WITH(barrier_pushes, setup, teardown)
{
    unsigned before = barriers;

    take(limit);
    defer(3);
    unchanged(3);
    stook_rcu_barrier();
    assert_int_equal(barriers, before + 1);
    assert_null(slot_here()->rcu);
    assert_int_equal(calls, 1);
    check(); /* nothing waits any more */
    stook_rcu_barrier();
    assert_int_equal(calls, 1);
}

static atomic_bool slot_closed;

/* As a preempted owner does, or a fork. */
static void *close_for_a_while(void *unused)
{
    struct slot *slot = slot_here();

    assert_non_null(slot_take(slot, false));
    atomic_store(&slot_closed, true);
    usleep(30000);
    slot_reopen(slot);
    return NULL;
}

TEST_WITH(barrier_waits_for_slots, setup, teardown)
{
    pthread_t thread;

    take(3);
    defer(3);
    assert_int_equal(pthread_create(&thread, NULL, close_for_a_while, NULL), 0);
    while (!atomic_load(&slot_closed))
        sched_yield();
    stook_rcu_barrier();
    pthread_join(thread, NULL);
    assert_null(slot_here()->rcu);
    check();
}

TEST_WITH(shrink_pushes, setup, teardown)
{
    take(limit);
    defer(5);
    stook_cache_shrink(cache);
    assert_int_equal(queued, 1); /* and waits for no thread */
    unchanged(5);
    pass();
    check();
}

TEST_WITH(destroy_waits, setup, teardown)
{
    struct stook_cache *other = cache;
    unsigned before = barriers;

    take(limit + 7);
    defer(limit + 7);
    assert_int_equal(queued, 1);
    assert_int_equal(stook_cache_destroy(other), 0);
    assert_true(barriers > before);
    assert_int_equal(queued, 0);
    check_all(NULL, 0);
    cache = make(SIZE, CAPACITY, 0);
    before = barriers;
    assert_int_equal(stook_cache_destroy(make(SIZE, 0, 0)), 0); /* nothing deferred, no wait */
    assert_int_equal(barriers, before);
}

static void *destroy(void *arg)
{
    return (void *)(intptr_t)stook_cache_destroy(arg);
}

TEST_WITH(destroy_waits_elsewhere, setup, teardown)
{
    pthread_t thread;
    void *result;

    take(limit + 7);
    defer(limit + 7);
    assert_int_equal(pthread_create(&thread, NULL, destroy, cache), 0);
    assert_int_equal(pthread_join(thread, &result), 0);
    assert_null(result);
    check_all(NULL, 0);
    cache = make(SIZE, CAPACITY, 0);
}

/* What is out is out; what was deferred comes back all the same, and the cache works on. */
TEST_WITH(destroy_refuses, setup, teardown)
{
    take(limit + 7);
    defer(limit);
    errno = 0;
    assert_int_equal(stook_cache_destroy(cache), -1);
    assert_int_equal(errno, EBUSY);
    check();
    defer(3);
    stook_rcu_barrier();
    check();
}

TEST_WITH(capacities, setup, teardown)
{
    static const unsigned wanted[] = {1, 2, 6, 14, 15, 28, 38, 70, 134, 254, 1000, 1020, 1022, 0};

    assert_int_equal(stook_cache_destroy(cache), 0);
    for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++)
        for (unsigned flags = 0; flags <= STOOK_CACHE_NOSHEAF; flags += STOOK_CACHE_NOSHEAF) {
            cache = make(64, wanted[i], flags);
            take(MOST / 2);
            while (held > 0) {
                unsigned n = held < 100 ? held : 100;
                defer(n);
                unchanged(n);
                if (slot_here()->rcu) {
                    struct sheaf *sheaf = slot_here()->rcu;
                    assert_true(sheaf->capacity + RCU_BATCH_WORDS <= sheaf_room(sheaf));
                    /* A sheaf loses no more than a fifth of its capacity to the batch. */
                    assert_true(cache_capacity(cache) <= sheaf->capacity * 5 / 4);
                }
                pass();
            }
            assert_int_equal(singles, 0);
            stook_rcu_barrier();
            check();
            assert_int_equal(stook_cache_destroy(cache), 0);
        }
    cache = make(SIZE, CAPACITY, 0);
    check();
}

/* ---- fork ---------------------------------------------------------------------------------------- */

static atomic_bool in_call, may_return, deferred;

static void slow_call(struct stook_rcu_head *head, void (*func)(struct stook_rcu_head *head))
{
    atomic_store(&in_call, true);
    while (!atomic_load(&may_return))
        sched_yield();
    hand_call(head, func);
}

static void *defer_a_sheaf(void *unused)
{
    defer(limit);
    atomic_store(&deferred, true);
    return NULL;
}

/* A barrier waits for a thread that has something in hand; the child of a fork does not. */
static void *wait_for_barrier(void *done)
{
    stook_rcu_barrier();
    atomic_store((atomic_bool *)done, true);
    return NULL;
}

TEST_WITH(hands, setup, teardown)
{
    static atomic_bool done;
    pthread_t thread, waiter;
    int status;
    pid_t child;

    if (getenv("STOOK_EMULATED"))
        skip(); /* threads and fork */
    take(limit + 2);
    rcu_ops.call = slow_call;
    assert_int_equal(pthread_create(&thread, NULL, defer_a_sheaf, NULL), 0);
    while (!atomic_load(&in_call) && !atomic_load(&deferred))
        sched_yield();
    rcu_ops.call = hand_call;
    atomic_store(&may_return,
                 !atomic_load(&in_call)); /* nothing waits for a test that has failed */
    assert_true(atomic_load(&in_call));
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        stook_free_rcu(cache, objects[0]);
        stook_rcu_barrier(); /* no thread is a mover here */
        _exit(slot_here()->rcu != NULL || queued > 0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(pthread_create(&waiter, NULL, wait_for_barrier, &done), 0);
    for (int i = 0; i < 20; i++) {
        usleep(1000);
        assert_false(atomic_load(&done));
    }
    atomic_store(&may_return, true);
    pthread_join(waiter, NULL);
    pthread_join(thread, NULL);
    assert_true(atomic_load(&done));
    assert_int_equal(queued, 0);
    check();
}

/* The child inherits what waits: in the slot, in cells, and in the RCU, which is the test's. */
TEST_WITH(forked, setup, teardown)
{
    struct slot *slot;
    struct sheaf *main;
    int status;
    pid_t child;

    take(2 * limit);
    defer(limit + 3);
    main = slot_close(percpu_offset(cache->index), &slot, false);
    defer(2);
    slot_open(slot, main);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        unchanged(limit + 5);
        while (held > 0)
            stook_free(cache, objects[--held]);
        _exit(stook_cache_destroy(cache) != 0 || queued > 0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    stook_rcu_barrier();
    check();
}
