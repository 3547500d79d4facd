/* SPDX-License-Identifier: MIT */
/*
 * once.h - work that one thread does while all others sleep until it is done.  Since they sleep, a thread of a
 * higher priority on the same CPU lets the working thread run.  Inlined, since libstook-malloc.so has none of base's code.
 */
#ifndef STOOK_BASE_ONCE_H
#define STOOK_BASE_ONCE_H

#include "base/raw.h"

#include <errno.h>
#include <stdbool.h>

enum { ONCE_NONE, ONCE_RUNNING, ONCE_AWAITED, ONCE_DONE };

static inline bool once_is_done(_Atomic uint32_t *once)
{
    /* Pairs with the release in once_end(). */
    return __builtin_expect(atomic_load_explicit(once, memory_order_acquire) == ONCE_DONE, 1);
}

/* True: the caller does it, and then calls once_end().  False: it is done.  errno is kept. */
static inline bool once_begin(_Atomic uint32_t *once)
{
    uint32_t state = ONCE_NONE;
    int saved = errno;

    if (atomic_compare_exchange_strong_explicit(once, &state, ONCE_RUNNING, memory_order_acquire,
                                                memory_order_acquire))
        return true;
    while (state != ONCE_DONE) {
        if (state == ONCE_AWAITED ||
            atomic_compare_exchange_strong_explicit(once, &state, ONCE_AWAITED,
                                                    memory_order_acquire, memory_order_acquire))
            raw_wait(once, ONCE_AWAITED, 0);
        state = atomic_load_explicit(once, memory_order_acquire);
    }
    errno = saved;
    return false;
}

static inline void once_end(_Atomic uint32_t *once)
{
    int saved = errno;

    /* Release: all that was done. */
    if (atomic_exchange_explicit(once, ONCE_DONE, memory_order_release) == ONCE_AWAITED)
        raw_wake(once, INT32_MAX);
    errno = saved;
}

#endif
