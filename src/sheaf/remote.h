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

#include "sheaf/slot_steps.h"

/* A sheaf of one other node's objects goes to its owner's barn, or is flushed: an empty one, or NULL. */
struct sheaf *remote_send(const struct slot_call *call, struct sheaf *sheaf);
/* The sheaf, without its objects of other nodes: they are in the slot's remote sheaves. */
struct sheaf *remote_sort(const struct slot_call *call, struct sheaf *sheaf);

#endif
