/* SPDX-License-Identifier: MIT */
/*
 * once.h - work that one thread does while all others sleep until it is done.  Since they sleep, a thread of a
 * higher priority on the same CPU lets the working thread run.
 *
 * The work may come back to itself: a function of libc's that it calls is another library's, which allocates.  That
 * call must not wait for its own thread, so it goes on without.
 */
#ifndef STOOK_BASE_ONCE_H
#define STOOK_BASE_ONCE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum { ONCE_NONE, ONCE_RUNNING, ONCE_AWAITED, ONCE_DONE };

struct once {
    _Atomic uint32_t state;
    _Atomic uintptr_t thread; /* that does it: its context's address, which a child of fork keeps */
};

static inline bool once_is_done(struct once *once)
{
    /* Pairs with the release in once_end(). */
    return __builtin_expect(atomic_load_explicit(&once->state, memory_order_acquire) == ONCE_DONE,
                            1);
}

/* True: the caller does it, and then calls once_end().  False: it is done, or this thread is at it.  errno is kept. */
bool once_begin(struct once *once);
void once_end(struct once *once);

#endif
