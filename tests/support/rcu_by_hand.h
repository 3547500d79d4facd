/* SPDX-License-Identifier: MIT */
/*
 * rcu_by_hand.h - an RCU for tests of deferred frees: a grace period is over when the test says so
 * (pass()), or when the library asks for a barrier.  And a cache, one CPU, and objects filled with a
 * pattern, so that a write to one that waits is seen.
 */
#ifndef TESTS_SUPPORT_RCU_BY_HAND_H
#define TESTS_SUPPORT_RCU_BY_HAND_H

#include "base/context.h"
#include "reserve/rcu.h"
#include "sheaf/slot.h"
#include "support/check.h"
#include "support/test.h"

#include <stook/rcu.h>

#include <sched.h>
#include <stdatomic.h>

enum { CAPACITY = 30, SIZE = 256, MOST = 4000 };

/* ---- an RCU by hand ------------------------------------------------------------------------- */

/* A stack without a lock: handlers push too. */
static _Atomic(struct stook_rcu_head *) queue;
static atomic_uint queued, calls; /* calls: all */
static atomic_uint singles;       /* of them, with an object that found no sheaf of its cache */
static unsigned barriers, synchronized;
static int reading;

static inline void hand_call(struct stook_rcu_head *head, void (*func)(struct stook_rcu_head *head))
{
    struct stook_rcu_head *next = atomic_load(&queue);

    assert_int_equal(context_tls.depth, 0); /* outside the library, in any thread */
    memset(head, 0xa5, sizeof(*head));      /* it is the RCU's */
    head->func = func;
    atomic_fetch_add(&queued, 1);
    atomic_fetch_add(&calls, 1);
    if (((struct rcu_batch *)(void *)head)->node == RCU_BATCH_SINGLE)
        atomic_fetch_add(&singles, 1);
    do
        head->next = next;
    while (!atomic_compare_exchange_weak(&queue, &next, head));
}

/* A grace period is over: of what was called before. */
static inline void pass(void)
{
    struct stook_rcu_head *head = atomic_exchange(&queue, NULL), *next;

    for (; head; head = next) {
        next = head->next;
        atomic_fetch_sub(&queued, 1);
        head->func(head);
    }
}

static inline void hand_barrier(void)
{
    barriers++;
    pass();
}

static inline void hand_synchronize(void)
{
    synchronized++;
}

static inline int hand_reading(void)
{
    return reading;
}

static const struct stook_rcu_ops ops = {sizeof(ops), hand_call, hand_barrier, hand_synchronize,
                                         hand_reading};

/* ---- a cache whose objects say what they are -------------------------------------------------- */

static struct stook_cache *cache;
static unsigned cpu;
enum { limit = CAPACITY }; /* 38 fit into such a sheaf: what the RCU needs has room */
static void *objects[MOST];
static unsigned held;

static inline struct stook_cache *make(size_t size, unsigned wanted, unsigned flags)
{
    struct stook_cache_args args = {.size = sizeof(args), .sheaf_capacity = wanted, .flags = flags};
    struct stook_cache *made = stook_cache_create("deferred", size, &args);

    assert_non_null(made);
    return made;
}

static inline int setup(void **unused)
{
    cpu_set_t one;

    cpu = (unsigned)sched_getcpu();
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    if (sched_setaffinity(0, sizeof(one), &one) != 0)
        return -1;
    cache = make(SIZE, CAPACITY, 0);
    held = 0;
    reading = 0;
    atomic_store(&calls, 0);
    atomic_store(&singles, 0);
    return 0;
}

static inline void take(unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        objects[held] = stook_alloc(cache, 0);
        assert_non_null(objects[held]);
        memset(objects[held], 0x5a, stook_cache_object_size(cache));
        held++;
    }
}

static inline void defer(unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        stook_free_rcu(cache, objects[--held]);
}

/* objects[held .. held + n) were deferred: readers see what was there. */
static inline void unchanged(unsigned n)
{
    for (unsigned i = held; i < held + n; i++)
        for (size_t k = 0; k < stook_cache_object_size(cache); k++)
            assert_int_equal(((unsigned char *)objects[i])[k], 0x5a);
}

static inline void check(void)
{
    static struct check_object list[MOST];

    for (unsigned i = 0; i < held; i++)
        list[i] = (struct check_object){cache, objects[i]};
    check_all(list, held);
}

static inline int teardown(void **unused)
{
    while (held > 0)
        stook_free(cache, objects[--held]);
    assert_int_equal(stook_cache_destroy(cache), 0);
    assert_int_equal(queued, 0);
    check_all(NULL, 0);
    return 0;
}

static inline struct slot *slot_here(void)
{
    return percpu_slot(cpu, percpu_offset(cache->index));
}

#endif
