/* SPDX-License-Identifier: MIT */
/*
 * delayed_rcu.h - an RCU for tests: real readers, and threads that delay grace periods at random.
 *
 * A reader writes the number of the grace period it began in; a grace period raises the number and
 * waits for readers of older ones.  All of it sequentially consistent atomics, so that sanitizers see
 * what happened before what.  call() pushes onto a stack of one of the workers: it is lock-free, for
 * handlers.  A worker takes its stack, dawdles, waits for a grace period, and calls back.
 */
#ifndef TESTS_SUPPORT_DELAYED_RCU_H
#define TESTS_SUPPORT_DELAYED_RCU_H

#include "support/random.h"

#include <stook/rcu.h>
#include <stook/stook.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { DELAYED_WORKERS = 2, DELAYED_READERS = 64, DELAYED_NAP = 300 };

static struct delayed_worker {
    _Atomic(struct stook_rcu_head *) stack;
    _Atomic uint64_t begun, ended; /* rounds */
    pthread_t thread;
} delayed_worker[DELAYED_WORKERS];

static _Atomic uint64_t delayed_period = 1, delayed_calls, delayed_backs;
static _Atomic uint64_t delayed_reader[DELAYED_READERS]; /* 0: reads nothing */
static _Atomic unsigned delayed_readers;
static __thread unsigned delayed_self; /* 1 + its place */
static __thread unsigned delayed_depth;
static atomic_bool delayed_stop;

/* Not in a handler: a place among the readers. */
static inline void delayed_register(void)
{
    delayed_self = 1 + atomic_fetch_add(&delayed_readers, 1);
    if (delayed_self > DELAYED_READERS)
        abort();
}

static inline void delayed_read_lock(void)
{
    if (delayed_depth++ == 0)
        atomic_store(&delayed_reader[delayed_self - 1], atomic_load(&delayed_period));
}

static inline void delayed_read_unlock(void)
{
    if (--delayed_depth == 0)
        atomic_store(&delayed_reader[delayed_self - 1], 0);
}

static inline void delayed_synchronize(void)
{
    uint64_t period = atomic_fetch_add(&delayed_period, 1) + 1, since;

    for (unsigned i = 0; i < DELAYED_READERS; i++)
        while ((since = atomic_load(&delayed_reader[i])) != 0 && since < period)
            usleep(20);
}

static inline void delayed_call(struct stook_rcu_head *head,
                                void (*func)(struct stook_rcu_head *head))
{
    uint64_t n = atomic_fetch_add(&delayed_calls, 1);
    struct delayed_worker *worker = &delayed_worker[n % DELAYED_WORKERS];
    struct stook_rcu_head *next = atomic_load(&worker->stack);

    head->func = func;
    do
        head->next = next;
    while (!atomic_compare_exchange_weak(&worker->stack, &next, head));
}

static inline void delayed_round(struct delayed_worker *worker, uint64_t *random)
{
    uint64_t round = atomic_fetch_add(&worker->begun, 1) + 1;
    struct stook_rcu_head *head = atomic_exchange(&worker->stack, NULL), *next;

    if (head) {
        usleep(random_below(random, DELAYED_NAP));
        delayed_synchronize();
        if (random_below(random, 4) == 0)
            usleep(random_below(random, 10 * DELAYED_NAP));
    }
    for (; head; head = next) {
        next = head->next;
        head->func(head);
        atomic_fetch_add(&delayed_backs, 1);
    }
    atomic_store(&worker->ended, round);
}

static void *delayed_run(void *arg)
{
    struct delayed_worker *worker = arg;
    uint64_t random = (uintptr_t)worker;

    while (!atomic_load(&delayed_stop)) {
        delayed_round(worker, &random);
        usleep(random_below(&random, DELAYED_NAP));
    }
    return NULL;
}

/* A round that begins after this has all that was called before. */
static inline void delayed_barrier(void)
{
    for (unsigned i = 0; i < DELAYED_WORKERS; i++) {
        uint64_t round = atomic_load(&delayed_worker[i].begun) + 1;
        while (atomic_load(&delayed_worker[i].ended) < round)
            usleep(20);
    }
}

static inline int delayed_reading(void)
{
    return delayed_depth > 0;
}

static inline int delayed_use(void)
{
    static const struct stook_rcu_ops ops = {sizeof(ops), delayed_call, delayed_barrier,
                                             delayed_synchronize, delayed_reading};

    if (stook_rcu_set_ops(&ops) != 0)
        return -1;
    atomic_store(&delayed_stop, false);
    for (unsigned i = 0; i < DELAYED_WORKERS; i++)
        if (pthread_create(&delayed_worker[i].thread, NULL, delayed_run, &delayed_worker[i]) != 0)
            return -1;
    return 0;
}

static inline void delayed_end(void)
{
    atomic_store(&delayed_stop, true);
    for (unsigned i = 0; i < DELAYED_WORKERS; i++)
        pthread_join(delayed_worker[i].thread, NULL);
}

#endif
