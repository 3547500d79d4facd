/* SPDX-License-Identifier: MIT */
/*
 * The slow half of alloc and free on one CPU: main and spare change places, sheaves move to the barn and back, and no
 * thread waits for a closed slot.  Pinned, so that one slot is used.
 */
#include "sheaf/slot_drain.h"

#include "base/context.h"
#include "page/arena.h"
#include "os/topology.h"
#include "sheaf/barn.h"
#include "support/check.h"
#include "support/test.h"

#include <stook/stook.h>

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

enum { CAPACITY = 10, MOST = 4000 };

static struct stook_cache *cache;
static uintptr_t offset;
static unsigned cpu;
static void *objects[MOST];
static unsigned held;

static int setup_of(unsigned capacity)
{
    struct stook_cache_args args = {.size = sizeof(args), .sheaf_capacity = capacity};
    cpu_set_t one;

    cpu = (unsigned)sched_getcpu();
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    if (sched_setaffinity(0, sizeof(one), &one) != 0)
        return -1;
    cache = stook_cache_create("slot", 256, &args);
    offset = percpu_offset(cache->index);
    held = 0;
    return cache ? 0 : -1;
}

static int setup(void **unused)
{
    return setup_of(CAPACITY);
}

static int setup_large(void **unused)
{
    return setup_of(4 * CAPACITY);
}

static void check(void)
{
    static struct check_object list[MOST];

    for (unsigned i = 0; i < held; i++)
        list[i] = (struct check_object){cache, objects[i]};
    check_all(list, held);
}

static void *take(bool nospin)
{
    void *object;

    return slot_alloc(cache, &object, 1, nospin) == 1 ? object : NULL;
}

static void alloc(unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        objects[held] = take(false);
        assert_non_null(objects[held++]);
    }
    check();
}

static void put(unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        slot_free(cache, &objects[--held], 1, false);
    check();
}

static int teardown(void **unused)
{
    put(held);
    assert_int_equal(stook_cache_destroy(cache), 0);
    check_all(NULL, 0);
    return 0;
}

static uint64_t cached(uint64_t *sheaves)
{
    uint64_t count, n;

    slot_count(cache, &count, &n);
    if (sheaves)
        *sheaves = n;
    return count;
}

TEST_WITH(refill_and_pop, setup, teardown)
{
    uint64_t sheaves, took;

    assert_int_equal(cached(&sheaves), 0);
    assert_int_equal(sheaves, 0);
    alloc(1);
    assert_true(cached(&sheaves) > 0); /* a refill brought more than one */
    assert_int_equal(sheaves, 1);
    took = cache->nodes[0].node.took;
    alloc((unsigned)cached(NULL));
    assert_int_equal(cache->nodes[0].node.took, took); /* the rest touched no slab */
    assert_int_equal(cached(NULL), 0);
}

/* Two sheaves in hand: putting and getting around a boundary asks the barn for nothing. */
TEST_WITH(no_bouncing, setup, teardown)
{
    struct barn *barn = &cache->nodes[0].barn;
    uint64_t get, put_count, took;

    alloc(4 * CAPACITY);
    put(2 * CAPACITY);
    get = barn->get + barn->get_fail;
    put_count = barn->put + barn->put_fail;
    took = cache->nodes[0].node.took;
    for (int round = 0; round < 50; round++) {
        alloc(CAPACITY / 2);
        put(CAPACITY / 2);
    }
    assert_true(barn->get + barn->get_fail - get <= 2);
    assert_true(barn->put + barn->put_fail - put_count <= 2);
    assert_true(cache->nodes[0].node.took - took <= 2);
}

/* A close that was aborted behind its first store, or a fence that was refused, leaves an open slot without an end. */
TEST_WITH(end_is_mended, setup, teardown)
{
    struct slot *slot = percpu_slot(cpu, offset);
    uint64_t before;

    if (!percpu.rseq)
        skip();
    alloc(CAPACITY);
    put(CAPACITY / 2);
    before = cached(NULL);
    assert_true(before > 0);
    atomic_store(&slot->end, NULL);
    put(1); /* into the sheaf all the same */
    assert_int_equal(cached(NULL), before + 1);
    assert_true(atomic_load(&slot->end) > atomic_load(&slot->top));
    check();
}

/* A thread that takes a slot without a fence lets pushes go on, and no pop. */
TEST_WITH(taken_as_by_a_fork, setup, teardown)
{
    struct slot *slot = percpu_slot(cpu, offset);
    uint64_t before;
    void *object;

    if (!percpu.rseq)
        skip();
    alloc(CAPACITY);
    put(CAPACITY / 2);
    before = cached(NULL);
    assert_non_null(slot_take(slot, false));
    assert_int_equal(slot_pop_bulk(offset, &object, 1), 0);
    assert_int_equal(slot_push_bulk(offset, &objects[held - 1], 1), 1);
    held--;
    slot_reopen(slot);
    assert_int_equal(cached(NULL), before + 1);
    check();
}

TEST_WITH(whole_sheaves_travel, setup, teardown)
{
    struct barn *barn = &cache->nodes[0].barn;
    uint64_t full;

    alloc(8 * CAPACITY);
    put(6 * CAPACITY);
    full = barn->nr_full;
    assert_true(full >= 3);
    assert_int_equal(barn->full->size, CAPACITY);
    alloc(5 * CAPACITY);
    assert_true(barn->nr_full < full && barn->get >= 3);
}

/* Frees alone, each object of another slab than the one before: one sheaf stays with the CPU, not two, and none with the barn. */
TEST_WITH(frees_alone_leave_one_sheaf, setup_large, teardown)
{
    unsigned each = cache->layout.objects, slabs = MOST / each;
    static void *in_turn[MOST];
    uint64_t sheaves;

    assert_true(slabs > SHEAF_FLUSH_SLABS + 4);
    alloc(slabs * each);
    for (unsigned i = 0; i < held; i++)
        in_turn[i] = objects[i % slabs * each + i / slabs];
    memcpy(objects, in_turn, sizeof(objects));
    put(held);
    assert_true(barn_declines(cache, 0));
    assert_true(cached(&sheaves) <= 4 * CAPACITY);
    assert_int_equal(sheaves, 1);
}

/* Frees alone of a cache that adapts, whose sheaves are small: its barn counts the refusals, and its lock is not taken. */
TEST_WITH(small_sheaves_are_refused_without_the_lock, setup, teardown)
{
    struct stook_cache *adaptive = stook_cache_create("adaptive", 4096, NULL);
    struct barn *barn = &adaptive->nodes[0].barn;
    uint64_t locked;
    uint32_t bounced;

    assert_true(adaptive->flags & STOOK_CACHE_ADAPTIVE);
    for (unsigned i = 0; i < MOST; i++)
        assert_non_null(objects[i] = stook_alloc(adaptive, 0));
    for (unsigned i = 0; i < MOST / 2; i++)
        stook_free(adaptive, objects[i]);
    assert_true(barn_declines(adaptive, 0));
    locked = barn->put_fail;
    bounced = barn->bounced;
    for (unsigned i = MOST / 2; i < MOST; i++)
        stook_free(adaptive, objects[i]);
    assert_int_equal(barn->put_fail, locked);
    assert_true(barn->bounced > bounced + 100);
    assert_int_equal(stook_cache_destroy(adaptive), 0);
}

TEST_WITH(closed_slot_makes_nobody_wait, setup, teardown)
{
    struct slot *slot;
    struct sheaf *main;

    alloc(3);
    main = slot_close(offset, &slot, false);
    assert_non_null(main);
    assert_null(slot_close(offset, &slot, false));
    objects[held] = take(false); /* from the slabs */
    assert_non_null(objects[held++]);
    slot_free(cache, &objects[0], 1, false); /* to the slabs */
    objects[0] = objects[--held];
    slot_drain(&cache, 1, false); /* passes by */
    slot_open(percpu_slot(cpu, offset), main);
    check();
}

TEST_WITH(drain, setup, teardown)
{
    uint64_t sheaves;

    alloc(3 * CAPACITY);
    put(2 * CAPACITY);
    assert_true(cached(&sheaves) > 0 && sheaves > 0);
    slot_drain(&cache, 1, false);
    assert_int_equal(cached(&sheaves), 0);
    assert_int_equal(sheaves, 0);
    check();
    alloc(1);
    put(1);
    slot_drain(&cache, 1, true);
    assert_int_equal(cached(NULL), 0);
}

static atomic_bool slot_held;

/* As a fork of another thread does, or a shrink. */
static void *hold_slot(void *unused)
{
    struct slot *slot = percpu_slot(cpu, offset);

    assert_non_null(slot_take(slot, false));
    atomic_store(&slot_held, true);
    usleep(30000);
    slot_reopen(slot);
    return NULL;
}

/* A cache that is destroyed is emptied, although another thread holds a slot for a moment. */
TEST_WITH(drain_alone_waits, setup, teardown)
{
    pthread_t thread;

    alloc(CAPACITY);
    put(CAPACITY);
    assert_true(cached(NULL) > 0);
    assert_int_equal(pthread_create(&thread, NULL, hold_slot, NULL), 0);
    while (!atomic_load(&slot_held))
        sched_yield();
    slot_drain(&cache, 1, true);
    pthread_join(thread, NULL);
    assert_int_equal(cached(NULL), 0);
    check();
}

/* CPUs that no fence may interrupt keep their sheaves, but do not keep a cache from going. */
TEST_WITH(isolated_cpus, setup, teardown)
{
    static uint64_t all[TOPOLOGY_CPUS_MAX / 64];
    uint64_t before;

    memset(all, 0xff, sizeof(all));
    alloc(CAPACITY);
    put(CAPACITY);
    before = cached(NULL);
    assert_true(before > 0);
    percpu.isolated = all;
    slot_drain(&cache, 1, false);
    assert_int_equal(cached(NULL), before);
    slot_drain(&cache, 1, true);
    assert_int_equal(cached(NULL), 0);
    alloc(3);
    put(3);
    teardown(NULL);
    percpu.isolated = NULL;
    setup(NULL);
}

TEST_WITH(bulk, setup, teardown)
{
    uint64_t made = cache->nodes[0].node.made;

    alloc(6 * CAPACITY);
    put(5 * CAPACITY);
    made = cache->nodes[0].node.made;
    /* Both sheaves and the barn's, whole and in part, and then some from slabs. */
    for (unsigned n = 1; held + n < MOST; n = n * 3 + 1) {
        assert_int_equal(slot_alloc(cache, objects + held, n, false), n);
        held += n;
        check();
    }
    assert_true(cache->nodes[0].node.made > made);
    for (unsigned n = 2; held > 1; n = n * 2 < held ? n * 2 : held) {
        n = n < held ? n : held;
        held -= n;
        slot_free(cache, objects + held, n, false);
        check();
    }
}

/* An interrupted owner: the handler finds the slot closed and every lock held, and still gets by. */
TEST_WITH(handler_over_everything, setup, teardown)
{
    struct slot *slot;
    struct sheaf *main;
    void *object;

    alloc(2 * CAPACITY);
    context_enter();
    main = slot_close(offset, &slot, false);
    assert_non_null(main);
    lock_take(&cache->nodes[0].barn.lock, LOCK_BARN);
    lock_take(&cache->nodes[0].node.lock, LOCK_NODE);
    context_enter();
    object = take(true); /* a new slab, its rest deferred */
    assert_non_null(object);
    slot_free(cache, &object, 1, true);
    slot_free(cache, &objects[--held], 1, true);
    context_leave();
    lock_drop(&cache->nodes[0].node.lock, LOCK_NODE);
    lock_drop(&cache->nodes[0].barn.lock, LOCK_BARN);
    slot_open(slot, main);
    context_leave();
    check();
}

/* Threads that are not registered, or forked: all slots taken and opened again. */
TEST_WITH(take_and_open_all, setup, teardown)
{
    uint64_t before;

    alloc(CAPACITY);
    put(CAPACITY / 2);
    before = cached(NULL);
    assert_true(before > 0);
    slot_take_all();
    objects[held] = take(false);
    assert_non_null(objects[held++]);
    slot_open_all();
    assert_int_equal(cached(NULL), before);
    check();
}

/* When slabs cannot be had, what lies in the barn is. */
TEST_WITH(barn_is_asked_last, setup, teardown)
{
    struct slot *slot;
    struct sheaf *main;

    alloc(6 * CAPACITY);
    put(6 * CAPACITY);
    assert_true(cache->nodes[0].barn.nr_full > 0);
    context_enter();
    main = slot_close(offset, &slot, false);
    lock_take(&cache->nodes[0].node.lock, LOCK_NODE);
    context_tls.fork = FORK_TAKING;
    arena_lock_all();
    context_tls.fork = FORK_NONE;
    context_enter();
    objects[held] = take(true);
    context_leave();
    arena_unlock_all();
    lock_drop(&cache->nodes[0].node.lock, LOCK_NODE);
    slot_open(slot, main);
    context_leave();
    assert_non_null(objects[held++]);
    check();
}
