/* SPDX-License-Identifier: MIT */
/*
 * init.h - the library starts itself with the first call that needs it, from any thread, before
 * or after static constructors.  False: this thread is starting it, and has come back (base/once.h).
 */
#ifndef STOOK_BASE_INIT_H
#define STOOK_BASE_INIT_H

#include "base/hooks.h"
#include "base/once.h"

#include <stook/stook.h>

#include <stdbool.h>

extern struct once init_state __attribute__((visibility("hidden")));

static inline bool init_once(void)
{
    return once_is_done(&init_state) || hooks.start(HOOKS_START, NULL);
}

/*
 * A process may map the library more than once: in libstook.so, in libstook-malloc.so, in plug-ins with an archive.
 * The loader binds the public names, and what malloc takes (kmalloc/private.h), to the first in its order.  That one
 * answers, by the address of its init_state; the others start nothing and read no environment.
 */
STOOK_API const void *stook_private_first(void);

static inline bool init_is_first(void)
{
    return stook_private_first() == &init_state;
}

#endif
