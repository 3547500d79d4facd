/* SPDX-License-Identifier: MIT */
#include "base/lock.h"

#include "base/context.h"
#include "base/raw.h"
#include "base/report.h"

#include <errno.h>
#include <sched.h>

enum {
    LOCK_SPINS = 64,
    LOCK_YIELDS = 16, /* turns of a wait that only yield … */
    LOCK_NAP = 50000, /* … and nanoseconds of sleep in those after */
};

static void cpu_relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ __volatile__("isb" ::: "memory");
#endif
}

/* Drepper's "Futexes are tricky", mutex 2, with a short spin first.  errno is the caller's. */
void lock_wait(struct lock *lock)
{
    int saved = errno;

    for (int i = 0; i < LOCK_SPINS; i++) {
        uint32_t free = 0;
        cpu_relax();
        if (atomic_load_explicit(&lock->word, memory_order_relaxed) == 0 &&
            atomic_compare_exchange_strong_explicit(&lock->word, &free, 1, memory_order_acquire,
                                                    memory_order_relaxed))
            return;
    }
    while (atomic_exchange_explicit(&lock->word, 2, memory_order_acquire) != 0)
        raw_wait(&lock->word, 2, 0);
    errno = saved;
}

void lock_wake(struct lock *lock)
{
    int saved = errno;

    raw_wake(&lock->word, 1);
    errno = saved;
}

void lock_pause(unsigned turn)
{
    static _Atomic uint32_t never;
    int saved = errno;

    if (turn < LOCK_YIELDS)
        sched_yield();
    else
        raw_wait(&never, 0, LOCK_NAP);
    errno = saved;
}

#ifdef STOOK_DEBUG
void lock_rank_take(enum lock_rank rank)
{
    struct context *context = context_self();

    /* A handler (depth > 1) only tries; fork takes all locks of one rank, one after the other. */
    if (context->depth > 1)
        return;
    if (context->fork != FORK_TAKING && (context->ranks >> rank) != 0)
        report_fatal("lock order: rank %u taken while ranks 0x%x are held", (unsigned)rank,
                     context->ranks);
    context->ranks |= 1u << rank;
}

void lock_rank_drop(enum lock_rank rank)
{
    struct context *context = context_self();

    if (context->depth <= 1 && context->fork == FORK_NONE)
        context->ranks &= ~(1u << rank);
}
#endif
