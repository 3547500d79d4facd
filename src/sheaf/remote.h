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

/* Moves the objects of other nodes out of a sheaf of this CPU, to the slot's remote sheaves, which are taken out of it meanwhile. */
void remote_sort(struct stook_cache *cache, unsigned node, uintptr_t offset, struct sheaf *sheaf,
                 bool nospin);

#endif
