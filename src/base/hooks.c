/* SPDX-License-Identifier: MIT */
/*
 * hooks.c - the variables of init and of the hooks that a layer above sets later; the table of
 * calls itself is in face/hooks.c and face/alone.c.
 */
#include "base/hooks.h"

#include "base/init.h"

struct once init_state;
struct hooks_set hooks_set;

/* In a file that does not call it: the linker leaves the call to the loader (cmake/first.list). */
const void *stook_private_first(void)
{
    return &init_state;
}
