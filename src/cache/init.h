/* SPDX-License-Identifier: MIT */
/*
 * init.h - the library starts itself with the first call that needs it, from any thread, before
 * or after static constructors; and what fork needs.
 */
#ifndef STOOK_CACHE_INIT_H
#define STOOK_CACHE_INIT_H

#include <stdatomic.h>
#include <stdint.h>

extern _Atomic unsigned init_state __attribute__((visibility("hidden")));
enum { INIT_NONE, INIT_RUNNING, INIT_DONE };

void init_slow(void);

static inline void init_once(void)
{
    /* Pairs with the release at the end of init_slow(). */
    if (__builtin_expect(atomic_load_explicit(&init_state, memory_order_acquire) != INIT_DONE, 0))
        init_slow();
}

/* Forks between the first process and this one: what is counted by threads may be stale. */
extern _Atomic uint32_t fork_count __attribute__((visibility("hidden")));

/* Registered with pthread_atfork() by init. */
void fork_prepare(void);
void fork_parent(void);
void fork_child(void);

#endif
