/* SPDX-License-Identifier: MIT */
/*
 * where.h - where a call comes from, in one word: a site or the code that it returns to.  Twice the address,
 * and 1 for a site; 0: from the library, which is no site.
 */
#ifndef STOOK_BASE_WHERE_H
#define STOOK_BASE_WHERE_H

#include <stdint.h>

struct stook_site;

static inline uint64_t where_address(const void *address)
{
    return (uint64_t)(uintptr_t)address << 1;
}

/* `address` where the caller names no site. */
static inline uint64_t where_site(const struct stook_site *site, const void *address)
{
    return site ? (uint64_t)(uintptr_t)site << 1 | 1 : where_address(address);
}

#endif
