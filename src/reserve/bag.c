/* SPDX-License-Identifier: MIT */
#include "reserve/bag.h"

#include "cache/init.h"
#include "os/os.h"

#include <stook/kmem_private.h>

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>

enum { BAG_LEAST = 1 }; /* room of the smallest */

uint64_t bag_nap = 1000000000u;

static uint32_t bag_forks(void)
{
    return atomic_load_explicit(&fork_count, memory_order_relaxed);
}

static void bag_lock(struct stook_kmem_bag *bag, sigset_t *before)
{
    const uint32_t held = 4 * bag_forks() + 1, awaited = held + 2;
    uint32_t seen, wanted = held;
    sigset_t all;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, before);
    seen = atomic_load_explicit(&bag->lock, memory_order_relaxed);
    for (;;) {
        bool free = seen != held && seen != awaited;
        if (seen == awaited) {
            os_wait(&bag->lock, awaited, 0);
            seen = atomic_load_explicit(&bag->lock, memory_order_relaxed);
            wanted = awaited; /* others may sleep still */
        } else if (atomic_compare_exchange_weak_explicit(&bag->lock, &seen, free ? wanted : awaited,
                                                         memory_order_acquire,
                                                         memory_order_relaxed)) {
            if (free)
                break;
            seen = awaited;
        }
    }
    if (bag->forks != bag_forks()) { /* who waited is not in this process */
        atomic_store(&bag->waiters, 0);
        bag->forks = bag_forks();
    }
}

static void bag_unlock(struct stook_kmem_bag *bag, const sigset_t *before)
{
    if (atomic_exchange_explicit(&bag->lock, 0, memory_order_release) & 2)
        os_wake(&bag->lock, 1);
    pthread_sigmask(SIG_SETMASK, before, NULL);
}

static uint32_t bag_wants(const struct stook_kmem_bag *bag)
{
    uint32_t limit = atomic_load(&bag->limit), waiters;

    if (limit > 0)
        return limit;
    waiters = atomic_load(&bag->waiters);
    return waiters < bag->room ? waiters : bag->room;
}

/* Takes one while there are more than `keep`. */
static void *bag_take(struct stook_kmem_bag *bag, uint32_t keep)
{
    void *pointer = NULL;
    sigset_t before;
    uint32_t count;

    if (atomic_load(&bag->count) <= keep)
        return NULL;
    bag_lock(bag, &before);
    count = atomic_load_explicit(&bag->count, memory_order_relaxed);
    if (count > keep) {
        pointer = bag->pointer[count - 1];
        atomic_store(&bag->count, count - 1);
    }
    bag_unlock(bag, &before);
    return pointer;
}

static void bag_wake(struct stook_kmem_bag *bag)
{
    if (atomic_load(&bag->waiters) > 0) {
        atomic_fetch_add(&bag->turn, 1);
        os_wake(&bag->turn, 1);
    }
}

int stook_kmem_bag_put(struct stook_kmem_bag *bag, void *pointer)
{
    sigset_t before;
    uint32_t count;
    bool put;

    /*
     * Usually it is full.  A reserve lacks something only while something out of it is in use, and
     * whoever brings that back sees that it was taken; so nobody waits for what passes by here.
     */
    if (atomic_load(&bag->count) >= atomic_load(&bag->limit) && atomic_load(&bag->waiters) == 0)
        return 0;
    bag_lock(bag, &before);
    count = atomic_load_explicit(&bag->count, memory_order_relaxed);
    put = count < bag_wants(bag);
    if (put) {
        bag->pointer[count] = pointer;
        atomic_store(&bag->count, count + 1);
    }
    bag_unlock(bag, &before);
    bag_wake(bag); /* where it was full too: it is there to be taken */
    return put;
}

void *stook_kmem_bag_take(struct stook_kmem_bag *bag)
{
    return bag_take(bag, 0);
}

void *stook_kmem_bag_spill(struct stook_kmem_bag *bag)
{
    return bag_take(bag, atomic_load(&bag->limit));
}

/* This thread waits, or does no more. */
static void bag_announce(struct stook_kmem_bag *bag, bool waits)
{
    sigset_t before;
    uint32_t waiters;

    bag_lock(bag, &before);
    waiters = atomic_load_explicit(&bag->waiters, memory_order_relaxed);
    if (waits)
        atomic_store(&bag->waiters, waiters + 1);
    else if (waiters > 0) /* else a handler forked, and nobody counts on us here */
        atomic_store(&bag->waiters, waiters - 1);
    bag_unlock(bag, &before);
}

void *stook_kmem_bag_wait(struct stook_kmem_bag *bag)
{
    int saved = errno;
    void *pointer;
    uint32_t turn;

    bag_announce(bag, true);
    do {
        turn = atomic_load(&bag->turn);
        pointer = bag_take(bag, 0);
        if (!pointer) {
            os_wait(&bag->turn, turn, bag_nap);
            pointer = bag_take(bag, 0);
        }
        /* Woken, and another one was faster: that one had not slept. */
    } while (!pointer && atomic_load(&bag->turn) != turn);
    bag_announce(bag, false);
    /* This one's wake-up may have been for another. */
    if (atomic_load(&bag->count) > 0)
        bag_wake(bag);
    errno = saved;
    return pointer;
}

/* ---- a bag's life --------------------------------------------------------------------------- */

static uint32_t bag_room(unsigned limit)
{
    return limit > BAG_LEAST ? limit : BAG_LEAST;
}

struct stook_kmem_bag *stook_kmem_bag_create(unsigned limit)
{
    struct stook_kmem_bag *bag;

    if (limit > STOOK_KMEM_BAG_MAX) {
        errno = E2BIG;
        return NULL;
    }
    bag = stook_kmalloc(sizeof(*bag), STOOK_ZERO);
    if (!bag)
        return NULL;
    bag->room = bag_room(limit);
    bag->limit = limit;
    bag->forks = bag_forks();
    bag->pointer = stook_kmalloc(bag->room * sizeof(void *), 0);
    if (bag->pointer)
        return bag;
    stook_free_any(bag);
    return NULL;
}

void stook_kmem_bag_destroy(struct stook_kmem_bag *bag)
{
    if (!bag)
        return;
    stook_free_any(bag->pointer);
    stook_free_any(bag);
}

/* The array only grows: what is too much after a smaller limit is still in it. */
int stook_kmem_bag_resize(struct stook_kmem_bag *bag, unsigned limit)
{
    void **fresh, **old = NULL;
    uint32_t room = bag_room(limit);
    sigset_t before;

    if (limit > STOOK_KMEM_BAG_MAX) {
        errno = E2BIG;
        return -1;
    }
    fresh = stook_kmalloc(room * sizeof(void *), 0);
    if (!fresh)
        return -1;
    bag_lock(bag, &before);
    if (room > bag->room) {
        memcpy(fresh, bag->pointer, bag->count * sizeof(void *));
        old = bag->pointer;
        bag->pointer = fresh;
        bag->room = room;
        fresh = NULL;
    }
    atomic_store(&bag->limit, limit);
    bag_unlock(bag, &before);
    stook_free_any(old);
    stook_free_any(fresh);
    return 0;
}

unsigned stook_kmem_bag_count(const struct stook_kmem_bag *bag)
{
    return atomic_load(&bag->count);
}

unsigned stook_kmem_bag_limit(const struct stook_kmem_bag *bag)
{
    return atomic_load(&bag->limit);
}
