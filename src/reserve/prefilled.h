/* SPDX-License-Identifier: MIT */
/*
 * prefilled.h - sheaves that callers hold (struct stook_sheaf is a struct sheaf).
 *
 * While a caller has it, `next` is the cache's address, which tells whose it is, and `capacity` is
 * what it was made for: the cache's, or more for an oversize one.  Oversize sheaves with more room
 * than the largest class of sheaves has are large objects of the arena.
 */
#ifndef STOOK_RESERVE_PREFILLED_H
#define STOOK_RESERVE_PREFILLED_H

#include "sheaf/sheaf.h"

#include <stook/sheaf.h>

/* The sheaf behind the public name, checked: the caller has it, and it is of this cache. */
struct sheaf *prefilled_of(const struct stook_cache *cache, const struct stook_sheaf *sheaf);

#endif
