/* SPDX-License-Identifier: MIT */
/*
 * nodes.h - objects for a CPU, from the slabs of whichever node has memory for it: its home first.
 */
#ifndef STOOK_SLAB_NODES_H
#define STOOK_SLAB_NODES_H

#include "slab/node.h"

/*
 * As node_take(), for a CPU of `node`: the home's partial, empty and new slabs; where the home has no
 * memory left, the other nodes', nearest first.  Other nodes' partial slabs do not come before new ones:
 * objects near their CPU are worth more than full slabs far away.
 */
uint32_t nodes_take(struct stook_cache *cache, unsigned node, void **objects, uint32_t min,
                    uint32_t max, bool nospin);

#endif
