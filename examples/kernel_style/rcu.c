/* SPDX-License-Identifier: MIT */
/*
 * A small RCU for a program.  Readers count themselves in one of two counters.  A grace period changes sides and waits
 * until the old counter is 0.  It does this twice, since a reader may have read the side before the change and counted
 * itself after it.  One thread waits for grace periods and makes the calls.
 */
#include "rcu.h"

#include <linux/rcupdate.h>

#include <stook/rcu.h>
#include <stook/stook.h>

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>

static atomic_uint side, readers[2];
static __thread unsigned depth, my_side;

void rcu_read_lock(void)
{
    if (depth++ == 0) {
        my_side = atomic_load(&side) & 1;
        atomic_fetch_add(&readers[my_side], 1);
    }
}

void rcu_read_unlock(void)
{
    if (--depth == 0)
        atomic_fetch_sub(&readers[my_side], 1);
}

static int reading(void)
{
    return depth > 0;
}

void synchronize_rcu(void)
{
    static pthread_mutex_t one = PTHREAD_MUTEX_INITIALIZER;

    pthread_mutex_lock(&one);
    for (int turn = 0; turn < 2; turn++) {
        unsigned old = atomic_fetch_add(&side, 1) & 1;
        while (atomic_load(&readers[old]) > 0)
            sched_yield();
    }
    pthread_mutex_unlock(&one);
}

/* ---- calls ----------------------------------------------------------------------------------- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static struct stook_rcu_head *queue;
static uint64_t called, done;
static int ending;
static pthread_t caller;

static void call(struct stook_rcu_head *head, void (*func)(struct stook_rcu_head *head))
{
    head->func = func;
    pthread_mutex_lock(&lock);
    head->next = queue;
    queue = head;
    called++;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

/* What was called before is in a batch that ends no later than `done` says. */
static void barrier(void)
{
    uint64_t mine;

    pthread_mutex_lock(&lock);
    mine = called;
    while (done < mine)
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
}

static void *run(void *unused)
{
    (void)unused;
    pthread_mutex_lock(&lock);
    while (!ending || queue) {
        struct stook_rcu_head *batch = queue;
        uint64_t n = 0;
        if (!batch) {
            pthread_cond_wait(&changed, &lock);
            continue;
        }
        queue = NULL;
        pthread_mutex_unlock(&lock);
        synchronize_rcu();
        while (batch) {
            struct stook_rcu_head *head = batch;
            batch = head->next;
            head->func(head);
            n++;
        }
        pthread_mutex_lock(&lock);
        done += n;
        pthread_cond_broadcast(&changed);
    }
    pthread_mutex_unlock(&lock);
    return NULL;
}

int rcu_start(void)
{
    const struct stook_rcu_ops ops = {sizeof(ops), call, barrier, synchronize_rcu, reading};

    if (pthread_create(&caller, NULL, run, NULL) != 0)
        return -1;
    return stook_rcu_set_ops(&ops);
}

void rcu_end(void)
{
    pthread_mutex_lock(&lock);
    ending = 1;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    pthread_join(caller, NULL);
}
