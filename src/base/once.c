/* SPDX-License-Identifier: MIT */
/*
 * once.c - the states of once.h: none, running, awaited by threads that sleep on the word, done.
 */
#include "base/once.h"

#include "base/context.h"
#include "base/raw.h"

bool once_begin(struct once *once)
{
    uintptr_t self = (uintptr_t)context_self();
    uint32_t state = ONCE_NONE;

    if (atomic_compare_exchange_strong_explicit(&once->state, &state, ONCE_RUNNING,
                                                memory_order_acquire, memory_order_acquire)) {
        atomic_store_explicit(&once->thread, self, memory_order_relaxed);
        return true;
    }
    while (state != ONCE_DONE &&
           atomic_load_explicit(&once->thread, memory_order_relaxed) != self) {
        if (state == ONCE_AWAITED ||
            atomic_compare_exchange_strong_explicit(&once->state, &state, ONCE_AWAITED,
                                                    memory_order_acquire, memory_order_acquire))
            raw_wait(&once->state, ONCE_AWAITED, 0);
        state = atomic_load_explicit(&once->state, memory_order_acquire);
    }
    return false;
}

void once_end(struct once *once)
{
    /* Release: all that was done. */
    if (atomic_exchange_explicit(&once->state, ONCE_DONE, memory_order_release) == ONCE_AWAITED)
        raw_wake(&once->state, INT32_MAX);
}
