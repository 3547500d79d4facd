/* SPDX-License-Identifier: MIT */
/*
 * prefilled.h - sheaves that callers hold (struct stook_sheaf is a struct sheaf).
 *
 * While a caller holds a sheaf, `next` is the address of its cache, which identifies it, and `capacity` is the number of
 * objects that it has room for: the cache's capacity, or more.  A sheaf beyond the largest class of sheaves is a large
 * object of the arena.
 */
#ifndef STOOK_RESERVE_PREFILLED_H
#define STOOK_RESERVE_PREFILLED_H

#include "sheaf/sheaf.h"

#include <stook/reserve.h>

/* The sheaf behind the public name.  Aborts if the caller does not hold it, or it is another cache's. */
struct sheaf *prefilled_of(const struct stook_cache *cache, const struct stook_sheaf *sheaf);

#endif
