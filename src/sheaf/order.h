/* SPDX-License-Identifier: MIT */
/*
 * order.h - neighbours in memory are neighbours in a sheaf again.
 *
 * A sheaf hands out objects in the reverse of the order in which they were freed.  A program that builds
 * a tree and frees it in another order finds it a little more shuffled each time.  Slabs
 * would restore the order, barns keep the order that there is.  docs/decisions/0044-locality-and-starts.md has figures.
 */
#ifndef STOOK_SHEAF_ORDER_H
#define STOOK_SHEAF_ORDER_H

#include "sheaf/sheaf.h"

/*
 * The objects of each page, page by page in the order in which the sheaf comes to them, lie in the order of
 * their addresses.  For a sheaf that the caller has to itself, on its way to a barn.  It stays as it is if it is
 * in order, or so scattered that its order does not matter.  So it does once the process has had a second thread:
 * objects that one thread hands to another would be put in order each time, at up to 4 ns an object.
 */
void order_restore(const struct stook_cache *cache, struct sheaf *sheaf);

#endif
