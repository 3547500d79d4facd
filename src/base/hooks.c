/* SPDX-License-Identifier: MIT */
/*
 * hooks.c - the variables of init and of the hooks that a layer above sets later; the table of
 * calls itself is in face/hooks.c and face/alone.c.
 */
#include "base/hooks.h"

#include "base/init.h"

struct once init_state;
struct hooks_set hooks_set;
