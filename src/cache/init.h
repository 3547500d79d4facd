/* SPDX-License-Identifier: MIT */
/*
 * init.h - the library starts itself with the first call that needs it, from any thread, before
 * or after static constructors; and what fork needs.
 */
#ifndef STOOK_CACHE_INIT_H
#define STOOK_CACHE_INIT_H

#include "base/once.h"

#include <stdatomic.h>
#include <stdint.h>

extern _Atomic uint32_t init_state __attribute__((visibility("hidden")));

void init_slow(void);

static inline void init_once(void)
{
    if (!once_is_done(&init_state))
        init_slow();
}

/* Forks between the first process and this one: what is counted by threads may be stale. */
extern _Atomic uint32_t fork_count __attribute__((visibility("hidden")));

/* Registered with pthread_atfork() by init. */
void fork_prepare(void);
void fork_parent(void);
void fork_child(void);

#endif
