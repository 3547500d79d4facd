/* SPDX-License-Identifier: MIT */
/*
 * lock.h - a ranked futex lock of four bytes.
 *
 * Rank order is the lock order: a lock may be taken only while all locks held by the thread have a
 * lower rank (STOOK_DEBUG builds check it; two locks of one rank only by fork, with lock_take_all).
 * The slot is not a lock: nobody waits for a closed slot, and nothing is taken while it is closed.
 */
#ifndef STOOK_BASE_LOCK_H
#define STOOK_BASE_LOCK_H

#include "base/context.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum lock_rank {
    LOCK_CACHES = 1, /* the list of caches, their ids */
    LOCK_PERCPU,     /* making a CPU's area */
    LOCK_BARN,       /* a barn's sheaves */
    LOCK_NODE,    /* a node's partial and empty slabs; state words of slabs that enter or leave */
    LOCK_ARENA,   /* blocks and pages of a node */
    LOCK_WINDOW,  /* what of the address space is taken */
    LOCK_RECLAIM, /* the list of reclaim callbacks */
    LOCK_GROUPS,  /* groups, their limits and charges */
    LOCK_RANKS
};

struct lock {
    _Atomic uint32_t word; /* 0 free, 1 held, 2 held and somebody sleeps */
};

void lock_wait(struct lock *lock);
void lock_wake(struct lock *lock);

/*
 * The n-th turn of a wait for what no lock says, such as an open slot: yields at first, then sleeps, so
 * that a thread of lower priority on this CPU gets on.
 */
void lock_pause(unsigned turn);

#ifdef STOOK_DEBUG
void lock_rank_take(enum lock_rank rank);
void lock_rank_drop(enum lock_rank rank);
#else
static inline void lock_rank_take(enum lock_rank rank)
{
    (void)rank;
}
static inline void lock_rank_drop(enum lock_rank rank)
{
    (void)rank;
}
#endif

static inline void lock_init(struct lock *lock)
{
    atomic_store_explicit(&lock->word, 0, memory_order_relaxed);
}

/* The word alone, for a lock without a rank: its holder may wait for others. */
static inline bool lock_word_try(struct lock *lock)
{
    uint32_t free = 0;

    return atomic_compare_exchange_strong_explicit(&lock->word, &free, 1, memory_order_acquire,
                                                   memory_order_relaxed);
}

static inline void lock_word_drop(struct lock *lock)
{
    /* Pairs with the acquire of the next taker. */
    if (atomic_exchange_explicit(&lock->word, 0, memory_order_release) == 2)
        lock_wake(lock);
}

static inline bool lock_try(struct lock *lock, enum lock_rank rank)
{
    if (!lock_word_try(lock))
        return context_holds_all();
    lock_rank_take(rank);
    return true;
}

static inline void lock_take(struct lock *lock, enum lock_rank rank)
{
    if (!lock_word_try(lock)) {
        if (context_holds_all())
            return;
        lock_wait(lock);
    }
    lock_rank_take(rank);
}

/* In a context that may not spin the lock is only tried. */
static inline bool lock_enter(struct lock *lock, enum lock_rank rank, bool nospin)
{
    if (nospin)
        return lock_try(lock, rank);
    lock_take(lock, rank);
    return true;
}

static inline void lock_drop(struct lock *lock, enum lock_rank rank)
{
    if (__builtin_expect(context_holds_all(), 0))
        return;
    lock_rank_drop(rank);
    lock_word_drop(lock);
}

#endif
