/* SPDX-License-Identifier: MIT */
/*
 * init.h - the library starts itself with the first call that needs it, from any thread, before
 * or after static constructors.  False: this thread is starting it, and has come back (base/once.h).
 */
#ifndef STOOK_BASE_INIT_H
#define STOOK_BASE_INIT_H

#include "base/hooks.h"
#include "base/once.h"

#include <stdbool.h>

extern struct once init_state __attribute__((visibility("hidden")));

static inline bool init_once(void)
{
    return once_is_done(&init_state) || hooks.start();
}

#endif
