/* SPDX-License-Identifier: MIT */
/*
 * lock.h - a ranked futex lock of four bytes.
 *
 * lock_ranks.h has all locks and their order.  The slot is not a lock: no thread waits for a closed slot, and no
 * lock is taken while it is closed.
 */
#ifndef STOOK_BASE_LOCK_H
#define STOOK_BASE_LOCK_H

#include "base/context.h"
#include "base/lock_ranks.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/*
 * FORK: the thread that forks holds it, and may wait for a mutex of another library's, which a thread
 * that allocates holds.  So no allocation and no free waits for such a lock: lock_enter() fails.
 */
enum lock_word {
    LOCK_FREE,
    LOCK_HELD,
    LOCK_AWAITED, /* held, and threads may sleep */
    LOCK_FORK,
    LOCK_FORK_AWAITED /* threads sleep that may wait for a fork */
};

struct LOCK_CAPABILITY lock {
    _Atomic uint32_t word;
};

/* Takes the lock.  A fork that has it is waited for if `through`; else false. */
bool lock_wait(struct lock *lock, bool through);
void lock_wake(struct lock *lock, uint32_t word);

/* Forks that have a lock, or are about to.  A thread that puts work aside because a fork has a lock looks
 * here afterwards: the fork does that work after its end, or the thread sees 0 (lock_forked()). */
extern _Atomic uint32_t lock_forks __attribute__((visibility("hidden")));
/* Counts beginnings and ends of forks: a thread that was refused something may have met one that is over,
 * and that had begun before the thread asked. */
extern _Atomic uint32_t lock_fork_turn __attribute__((visibility("hidden")));

static inline bool lock_forked(void)
{
    return atomic_load_explicit(&lock_forks, memory_order_seq_cst) != 0;
}

static inline uint32_t lock_turn(void)
{
    return atomic_load_explicit(&lock_fork_turn, memory_order_relaxed);
}

/* There is a fork, or one began or ended since then. */
static inline bool lock_forked_since(uint32_t turn)
{
    return lock_forked() || lock_turn() != turn;
}

/*
 * Around work within an allocation that takes locks with lock_take(), which waits for a fork too.  If the
 * allocating thread held a lock that the fork's handlers wait for, neither would go on.  So a fork waits
 * until such work has ended before it takes its first lock, for some 100 ms at most; and no such work
 * begins beside a fork: false.
 */
bool lock_begin_blocking(void);
void lock_end_blocking(void);

/* Before the forking thread's first lock, and after its last in the parent and in the child. */
void lock_begin_fork(void);
void lock_end_fork(void);
void lock_child(void);

/* The forking thread has taken the lock: threads that wait for it and need not give up. */
void lock_mark_fork(struct lock *lock);

/*
 * The n-th turn of a wait without a lock or futex, such as for an open slot: yields at first, then sleeps, so
 * that a thread of lower priority on this CPU can run.
 */
void lock_pause(unsigned turn);

#ifdef STOOK_ASSERTIONS
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

/* What clang is to know of the calls below. */
static inline bool lock_word_try(struct lock *lock) LOCK_TRIES(lock);
static inline void lock_word_drop(struct lock *lock) LOCK_DROPS(lock);
static inline void lock_take(struct lock *lock, enum lock_rank rank) LOCK_TAKES(lock);
static inline bool lock_enter(struct lock *lock, enum lock_rank rank, bool nospin) LOCK_TRIES(lock);
static inline void lock_drop(struct lock *lock, enum lock_rank rank) LOCK_DROPS(lock);

/* The word alone, for a lock without a rank: its holder may wait for others. */
LOCK_UNCHECKED static inline bool lock_word_try(struct lock *lock)
{
    uint32_t free = 0;

    return atomic_compare_exchange_strong_explicit(&lock->word, &free, 1, memory_order_acquire,
                                                   memory_order_relaxed);
}

LOCK_UNCHECKED static inline void lock_word_drop(struct lock *lock)
{
    /* Pairs with the acquire of the next taker. */
    uint32_t word = atomic_exchange_explicit(&lock->word, LOCK_FREE, memory_order_release);

    if (word >= LOCK_AWAITED)
        lock_wake(lock, word);
}

/* For calls that may wait for a fork: those that neither allocate nor free. */
LOCK_UNCHECKED static inline void lock_take(struct lock *lock, enum lock_rank rank)
{
    if (!lock_word_try(lock)) {
        if (context_holds_all())
            return;
        (void)lock_wait(lock, true);
    }
    lock_rank_take(rank);
}

/* In a context that may not spin the lock is only tried; in others a fork that has it is not waited for. */
LOCK_UNCHECKED static inline bool lock_enter(struct lock *lock, enum lock_rank rank, bool nospin)
{
    if (!lock_word_try(lock)) {
        if (context_holds_all())
            return true;
        if (nospin || !lock_wait(lock, false))
            return false;
    }
    lock_rank_take(rank);
    return true;
}

static inline bool lock_has_fork(struct lock *lock)
{
    return atomic_load_explicit(&lock->word, memory_order_relaxed) >= LOCK_FORK;
}

LOCK_UNCHECKED static inline void lock_drop(struct lock *lock, enum lock_rank rank)
{
    if (__builtin_expect(context_holds_all(), 0))
        return;
    lock_rank_drop(rank);
    lock_word_drop(lock);
}

#endif
