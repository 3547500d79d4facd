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

#include <stook/kmalloc.h>
#include <stook/rcu.h>

#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

TEST_WITH(closed_slot, setup, teardown)
{
    struct slot *slot;
    struct sheaf *main;

    take(limit);
    defer(2);
    main = slot_close(percpu_offset(cache->index), &slot, false);
    assert_non_null(main);
    defer(3);
    assert_int_equal(slot->rcu->size, 2);
    slot_open(slot, main);
    assert_int_equal(singles, 3);
    assert_int_equal(queued, 3);
    unchanged(5);
    stook_rcu_barrier();
    check();
}

/* Objects of whole pages have no cache, and so no sheaf; in a handler, too. */
TEST_WITH(whole_pages, setup, teardown)
{
    unsigned char *object[2];

    for (unsigned i = 0; i < 2; i++) {
        assert_non_null(object[i] = stook_kmalloc(100000, 0));
        memset(object[i], 0x5a, 100000);
    }
    stook_free_any_rcu(object[0]);
    assert_int_equal(queued, 1);
    context_enter();
    stook_free_any_rcu(object[1]);
    assert_int_equal(queued, 1);
    context_leave();
    assert_int_equal(queued, 2);
    for (unsigned i = 0; i < 2; i++)
        assert_true(object[i][0] == 0x5a && object[i][99999] == 0x5a);
    stook_rcu_barrier();
    assert_int_equal(stook_node_of(object[0]), -1);
    assert_int_equal(stook_node_of(object[1]), -1);
    check();
}

/* An interrupted owner: slot closed, locks held; the sheaf that fills is handed over when it leaves. */
TEST_WITH(handler, setup, teardown)
{
    struct slot *slot;
    struct sheaf *main;

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
    assert_int_equal(queued, 1 + 4); /* the sheaf, and the objects while the slot was closed */
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

TEST_WITH(call_is_interrupted, setup, teardown)
{
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
TEST_WITH(a_full_sheaf_serves, setup, teardown)
{
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
    assert_int_equal(singles, 0);
    unchanged(1);
    stook_rcu_barrier();
    check();
}

/* No memory at all: the static sheaves. */
static int exhaust(void *arg)
{
    bool all = arg != NULL;
    unsigned most = RCU_SPARES, n = 0;

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
    if (queued != most || singles != most)
        return 1;
    unchanged(n);
    stook_rcu_barrier();
    check();
    for (unsigned i = 0; i < 2 * RCU_SPARES; i++) { /* the spare sheaves are there again */
        take(1);
        defer(1);
    }
    return teardown(NULL);
}

TEST(exhausted)
{
    static struct child child;

    child_run(&child, exhaust, NULL);
    assert_true(child_passed(&child));
    child_run(&child, exhaust, &child);
    assert_true(child_died_saying(&child, "no memory to defer the free of"));
}

/* Out of memory where the thread may wait: the spare sheaves, then a grace period each. */
static int exhaust_memory(void *arg)
{
    struct rlimit none = {1 << 20, 1 << 20};
    unsigned n = 0, most = RCU_SPARES + 100;

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
    if (queued != RCU_SPARES || synchronized != 100 || singles != RCU_SPARES)
        return 2;
    pass();
    stook_rcu_barrier();
    return stook_cache_destroy(cache);
}

TEST(exhausted_memory)
{
    static struct child child;

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
    if (stook_rcu_set_ops(&ops) != 0)
        return 1;
    return tests_run(NULL, NULL);
}
