/* SPDX-License-Identifier: MIT */
/*
 * lock.c - the slow paths of the futex locks: how a thread waits and is woken, what a fork does to
 * them, and the check of their ranks.
 */
#include "base/lock.h"

#include "base/context.h"
#include "base/raw.h"
#include "base/report.h"

#include <limits.h>

enum {
    LOCK_SPINS = 64,
    LOCK_YIELDS = 16, /* turns of a wait that only yield … */
    LOCK_NAP = 50000, /* … and nanoseconds of sleep in those after */
    LOCK_BLOCKING_TURNS = 1024,
};

static void cpu_relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ __volatile__("isb" ::: "memory");
#elif defined(__riscv)
    __asm__ __volatile__(".4byte 0x0100000f" ::: "memory"); /* pause, a hint that old CPUs ignore */
#endif
}

_Atomic uint32_t lock_forks, lock_fork_turn;

static bool lock_cas(struct lock *lock, uint32_t from, uint32_t to)
{
    return atomic_compare_exchange_strong_explicit(&lock->word, &from, to, memory_order_acquire,
                                                   memory_order_relaxed);
}

/*
 * Drepper's "Futexes are tricky", mutex 2, with a short spin first.
 *
 * The word stays FORK until the fork ends, so a thread that finds it so gives up, or sleeps on
 * FORK_AWAITED.  A wake-up reaches one thread: if that one finds a fork, it wakes the others, which sleep
 * on AWAITED and may have to give up.
 */
bool lock_wait(struct lock *lock, bool through)
{
    bool slept = false;

    for (int i = 0; i < LOCK_SPINS && !lock_has_fork(lock); i++) {
        cpu_relax();
        if (atomic_load_explicit(&lock->word, memory_order_relaxed) == LOCK_FREE &&
            lock_cas(lock, LOCK_FREE, LOCK_HELD))
            return true;
    }
    for (;;) {
        uint32_t word = atomic_load_explicit(&lock->word, memory_order_relaxed);
        bool fork = word >= LOCK_FORK;
        uint32_t sleep = fork ? LOCK_FORK_AWAITED : LOCK_AWAITED;
        if (word == LOCK_FREE && lock_cas(lock, LOCK_FREE, LOCK_AWAITED))
            return true;
        if (fork && slept)
            raw_wake(&lock->word, INT_MAX);
        if (fork && !through)
            return false;
        slept = !fork;
        if (word != LOCK_FREE && (word == sleep || lock_cas(lock, word, sleep)))
            raw_wait(&lock->word, sleep, 0);
    }
}

void lock_wake(struct lock *lock, uint32_t word)
{
    if (word != LOCK_FORK)
        raw_wake(&lock->word, word == LOCK_FORK_AWAITED ? INT_MAX : 1);
}

static _Atomic uint32_t lock_blocking; /* threads between lock_begin_blocking() and its end */

/* A thread is counted before it looks for a fork, a fork before it looks for threads: one sees the other. */
bool lock_begin_blocking(void)
{
    atomic_fetch_add_explicit(&lock_blocking, 1, memory_order_seq_cst);
    if (!lock_forked())
        return true;
    lock_end_blocking();
    return false;
}

void lock_end_blocking(void)
{
    atomic_fetch_sub_explicit(&lock_blocking, 1, memory_order_release);
}

void lock_begin_fork(void)
{
    atomic_fetch_add_explicit(&lock_forks, 1, memory_order_seq_cst);
    atomic_fetch_add_explicit(&lock_fork_turn, 1, memory_order_seq_cst);
    for (unsigned turn = 0; turn < LOCK_BLOCKING_TURNS &&
                            atomic_load_explicit(&lock_blocking, memory_order_seq_cst) > 0;
         turn++)
        lock_pause(turn);
}

/* The threads that were counted are not in the child. */
void lock_child(void)
{
    atomic_store_explicit(&lock_blocking, 0, memory_order_relaxed);
    atomic_store_explicit(&lock_forks, 0, memory_order_seq_cst);
}

/* The turn first: a thread that finds no fork any more finds another turn. */
void lock_end_fork(void)
{
    atomic_fetch_add_explicit(&lock_fork_turn, 1, memory_order_seq_cst);
    atomic_fetch_sub_explicit(&lock_forks, 1, memory_order_seq_cst);
}

void lock_mark_fork(struct lock *lock)
{
    if (atomic_exchange_explicit(&lock->word, LOCK_FORK, memory_order_relaxed) == LOCK_AWAITED)
        lock_wake(lock, LOCK_FORK_AWAITED);
}

void lock_pause(unsigned turn)
{
    static _Atomic uint32_t never;

    if (turn < LOCK_YIELDS)
        (void)raw_result(SYS_sched_yield);
    else
        raw_wait(&never, 0, LOCK_NAP);
}

#ifdef STOOK_ASSERTIONS
static const char *const lock_name[LOCK_RANKS] = {
#define LOCK_NAME(rank, name, per, where) [LOCK_##rank] = (name),
    LOCK_RANKED(LOCK_NAME)
#undef LOCK_NAME
};

void lock_rank_take(enum lock_rank rank)
{
    struct context *context = context_self();

    /* A handler (depth > 1) only tries; fork takes all locks of one rank, one after the other. */
    if (context->depth > 1)
        return;
    if (context->fork != FORK_TAKING && (context->ranks >> rank) != 0)
        report_fatal("lock order: %s is taken while %s is held", lock_name[rank],
                     lock_name[31 - __builtin_clz(context->ranks)]);
    context->ranks |= 1u << rank;
}

void lock_rank_drop(enum lock_rank rank)
{
    struct context *context = context_self();

    if (context->depth <= 1 && context->fork == FORK_NONE)
        context->ranks &= ~(1u << rank);
}
#endif
