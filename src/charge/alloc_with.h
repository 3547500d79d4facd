/* SPDX-License-Identifier: MIT */
/*
 * alloc_with.h - struct stook_alloc_args (stook/stook.h), for the calls that take one.
 */
#ifndef STOOK_CHARGE_ALLOC_WITH_H
#define STOOK_CHARGE_ALLOC_WITH_H

#include "base/grow.h"
#include "base/where.h"

#include <stook/stook.h>

/* The arguments, or `copy` where the caller's structure is of another version; NULL with errno EINVAL: it says what this
 * library does not know. */
const struct stook_alloc_args *alloc_with_args(const struct stook_alloc_args *args,
                                               struct stook_alloc_args *copy);

/* Of a call that returns to `to`. */
static inline uint64_t alloc_with_where(const struct stook_alloc_args *args, const void *to)
{
    return where_site(args->site, args->from ? args->from : to);
}

#endif
