/* SPDX-License-Identifier: MIT */
/* needs: whole */
/*
 * Deferred frees where there is no slot, no sheaf, or no memory, and on top of an interrupted holder.
 */
#include "os/topology.h"
#include "page/arena.h"
#include "sheaf/barn.h"
#include "support/child.h"
#include "support/rcu_by_hand.h"

#include <stook/rcu.h>

#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

static void closed_slot(void **unused)
{
    struct slot *slot;
    struct sheaf *main;

    (void)unused;
    take(limit);
    defer(2);
    main = slot_close(percpu_offset(cache->index), &slot, false);
    assert_non_null(main);
    defer(3);
    assert_int_equal(slot->rcu->size, 2);
    slot_open(slot, main);
    assert_int_equal(events().loose, 3);
    unchanged(5);
    assert_int_equal(queued, 0);
    stook_rcu_barrier();
    check();
}

/* As many as a sheaf holds do not wait for a barrier; of two caches, side by side. */
static void loose_fill_a_sheaf(void **unused)
{
    struct stook_cache *other = make(64, 0, 0);
    void *others[RCU_MIXED];
    struct slot *slot, *slot2;
    struct sheaf *main, *main2;

    (void)unused;
    take(RCU_MIXED);
    for (unsigned i = 0; i < RCU_MIXED; i++)
        assert_non_null(others[i] = stook_alloc(other, 0));
    main = slot_close(percpu_offset(cache->index), &slot, false);
    main2 = slot_close(percpu_offset(other->index), &slot2, false);
    for (unsigned i = 0; i < RCU_MIXED - 1; i++)
        if (i % 3)
            defer(1);
        else
            stook_free_rcu(other, others[i]);
    assert_int_equal(queued, 0);
    defer(1);
    assert_int_equal(queued, 1);
    slot_open(slot, main);
    slot_open(slot2, main2);
    unchanged(1 + (RCU_MIXED - 1) * 2 / 3);
    pass();
    for (unsigned i = 0; i < RCU_MIXED; i++)
        if (i % 3 || i == RCU_MIXED - 1)
            stook_free(other, others[i]);
    assert_int_equal(stook_cache_destroy(other), 0);
    check();
}

/* An interrupted owner: slot closed, locks held; the sheaf that fills is handed over when it leaves. */
static void handler(void **unused)
{
    struct slot *slot;
    struct sheaf *main;

    (void)unused;
    take(3 * limit);
    defer(limit - 1);
    context_enter();
    lock_take(&cache->nodes[0].barn.lock, LOCK_BARN);
    lock_take(&cache->nodes[0].node.lock, LOCK_NODE);
    defer(1); /* full */
    assert_int_equal(queued, 0);
    defer(1); /* a sheaf of the library's own, by trying */
    main = slot_close(percpu_offset(cache->index), &slot, false);
    defer(4);
    slot_open(slot, main);
    lock_drop(&cache->nodes[0].node.lock, LOCK_NODE);
    lock_drop(&cache->nodes[0].barn.lock, LOCK_BARN);
    assert_int_equal(queued, 0);
    context_leave();
    assert_int_equal(queued, 1);
    unchanged(limit + 5);
    stook_rcu_barrier();
    check();
}

/* The call of the RCU is interrupted by a handler that fills a sheaf: the call is not entered again. */
static unsigned inside, entered_again;

static void calling(struct stook_rcu_head *head, void (*func)(struct stook_rcu_head *head))
{
    entered_again += inside++ > 0;
    hand_call(head, func);
    if (held >= limit) {
        unsigned before = queued;
        defer(limit);
        assert_int_equal(queued, before);
    }
    inside--;
}

static void call_is_interrupted(void **unused)
{
    (void)unused;
    take(3 * limit);
    rcu_ops.call = calling;
    defer(limit);
    rcu_ops.call = hand_call;
    assert_int_equal(held, 0);
    assert_int_equal(entered_again, 0);
    assert_int_equal(queued, 3);
    pass();
    check();
}

/* Another thread holds every lock that a sheaf could need. */
static void hold_memory(void)
{
    for (unsigned i = 0; i < SHEAF_CLASSES; i++)
        for (unsigned k = 0; k < topology.nodes; k++)
            atomic_store(&sheaf_cache[i]->nodes[k].node.lock.word, 1);
    context_tls.fork = FORK_TAKING;
    arena_lock_all();
    context_tls.fork = FORK_NONE;
}

static void drop_memory(void)
{
    for (unsigned i = 0; i < SHEAF_CLASSES; i++)
        for (unsigned k = 0; k < topology.nodes; k++)
            atomic_store(&sheaf_cache[i]->nodes[k].node.lock.word, 0);
    arena_unlock_all();
}

/* A full sheaf of the barn is emptied into the slabs, and serves. */
static void a_full_sheaf_serves(void **unused)
{
    (void)unused;
    take(4 * CAPACITY);
    while (held > 0)
        stook_free(cache, objects[--held]);
    assert_true(cache->nodes[0].barn.nr_full > 0);
    while (cache->nodes[0].barn.nr_empty > 0)
        sheaf_free(barn_get_empty(cache, 0, false), false);
    take(1);
    context_enter();
    hold_memory();
    defer(1);
    drop_memory();
    context_leave();
    assert_non_null(slot_here()->rcu);
    assert_int_equal(events().loose, 0);
    unchanged(1);
    stook_rcu_barrier();
    check();
}

/* No memory at all: cells, and the static sheaves for as many objects again. */
static int exhaust(void *arg)
{
    bool all = arg != NULL;
    unsigned most = 2 * RCU_CELLS, n = 0;

    setup(NULL);
    stook_cache_destroy(cache);
    cache = make(SIZE, 0, STOOK_CACHE_NOSHEAF);
    take(most + 1);
    context_enter();
    hold_memory();
    for (; n < most; n++)
        defer(1);
    if (all)
        defer(1); /* aborts */
    drop_memory();
    context_leave();
    if (queued != RCU_SPARES || events().loose != most)
        return 1;
    unchanged(n);
    stook_rcu_barrier();
    check();
    for (unsigned i = 0; i < 3 * RCU_CELLS; i++) { /* the spare sheaves are there again */
        take(1);
        defer(1);
    }
    return teardown(NULL);
}

static void exhausted(void **unused)
{
    static struct child child;

    (void)unused;
    child_run(&child, exhaust, NULL);
    assert_true(child_passed(&child));
    child_run(&child, exhaust, &child);
    assert_true(child_died_saying(&child, "no memory to defer the free of"));
}

/* Out of memory where one may wait: cells, then the spare sheaves, then a grace period each. */
static int exhaust_memory(void *arg)
{
    struct rlimit none = {1 << 20, 1 << 20};
    unsigned n = 0, most = RCU_CELLS + RCU_SPARES * RCU_MIXED + 100;

    setup(NULL);
    reading = arg != NULL;
    stook_cache_destroy(cache);
    cache = make(SIZE, 0, STOOK_CACHE_NOSHEAF);
    take(most);
    if (setrlimit(RLIMIT_DATA, &none) != 0)
        return 1;
    /* Sheaves of all sizes until there is none. */
    for (unsigned room = 1022; room > 0; room = room / 2)
        while (sheaf_alloc(room, room, 0, false))
            n++;
    for (unsigned i = 0; i < most; i++)
        defer(1);
    printf("%u sheaves before memory ran out, %u waits\n", n, synchronized);
    if (queued != RCU_SPARES || synchronized != 100 || events().loose != most)
        return 2;
    pass();
    stook_rcu_barrier();
    return stook_cache_destroy(cache);
}

static void exhausted_memory(void **unused)
{
    static struct child child;

    (void)unused;
    if (getenv("STOOK_EMULATED"))
        skip();
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    skip(); /* their own memory is data too */
#endif
    child_run(&child, exhaust_memory, NULL);
    assert_true(child_passed(&child));
    child_run(&child, exhaust_memory, &child); /* inside a read-side section no thread may wait */
    assert_true(child_died_saying(&child, "no memory to defer the free of"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(closed_slot, setup, teardown),
        cmocka_unit_test_setup_teardown(loose_fill_a_sheaf, setup, teardown),
        cmocka_unit_test_setup_teardown(handler, setup, teardown),
        cmocka_unit_test_setup_teardown(call_is_interrupted, setup, teardown),
        cmocka_unit_test_setup_teardown(a_full_sheaf_serves, setup, teardown),
        cmocka_unit_test(exhausted),
        cmocka_unit_test(exhausted_memory),
    };

    if (stook_rcu_set_ops(&ops) != 0)
        return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
