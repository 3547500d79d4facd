/* SPDX-License-Identifier: MIT */
/*
 * init.h - the library starts itself with the first call that needs it, from any thread, before
 * or after static constructors.
 */
#ifndef STOOK_BASE_INIT_H
#define STOOK_BASE_INIT_H

#include "base/hooks.h"
#include "base/once.h"

#include <stdatomic.h>
#include <stdint.h>

extern _Atomic uint32_t init_state __attribute__((visibility("hidden")));

static inline void init_once(void)
{
    if (!once_is_done(&init_state))
        hooks.start();
}

#endif
