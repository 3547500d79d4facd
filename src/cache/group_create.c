/* SPDX-License-Identifier: MIT */
/*
 * group_create.c - the one call of groups that can be a program's first of this library.
 */
#include "account/group.h"
#include "cache/init.h"

struct stook_group stook_group_create(const char *name, struct stook_group parent, size_t limit)
{
    init_once();
    return group_make(name, parent, limit);
}
