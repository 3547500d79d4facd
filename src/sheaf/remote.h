/* SPDX-License-Identifier: MIT */
/*
 * remote.h - objects that are freed far from their node, on machines with several.
 *
 * The fast path does not check the node of an object.  A full sheaf is sorted when it leaves the CPU.  A
 * sheaf with objects of one other node goes to that node's barn unchanged.  From a mixed sheaf, objects of
 * other homes move to the slot's remote sheaves, one a node; each goes to its owner's barn when it is full.
 * So a producer on one node and a consumer on another recycle sheaves and touch no slab.
 */
#ifndef STOOK_SHEAF_REMOTE_H
#define STOOK_SHEAF_REMOTE_H

#include "sheaf/sheaf.h"

/*
 * Moves the objects that are not of the home of `node` out of a sheaf, to the chain of remote sheaves
 * (linked by ->next, some may be empty).  Full ones go to their owners' barns in exchange for empty ones.
 */
void remote_sort(struct stook_cache *cache, unsigned node, struct sheaf *sheaf,
                 struct sheaf **remote, bool nospin);
/* All sheaves of a chain: to their owners' barns, the empty ones away. */
void remote_return(struct stook_cache *cache, struct sheaf *remote, bool nospin);

#endif
