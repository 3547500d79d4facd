/* SPDX-License-Identifier: MIT */
/*
 * nodes.h - objects for a CPU, from the slabs of whichever node has memory for it: its home first.
 */
#ifndef STOOK_SLAB_NODES_H
#define STOOK_SLAB_NODES_H

#include "slab/node.h"

/* Percent: objects near their CPU are worth more than full slabs far away.  (Linux: 98.) */
enum { NODES_DEFRAG_RATIO = 0 };

/*
 * As node_take(), for a CPU of `node`.  The home's partial slabs; those of other nodes, nearest
 * first and by trying their locks only, in as many cases of a hundred as the cache's ratio says, so
 * that memory fills up before there is more of it; the home's empty and new slabs; and where the
 * home has no memory left, the other nodes'.
 */
uint32_t nodes_take(struct stook_cache *cache, unsigned node, void **objects, uint32_t min,
                    uint32_t max, bool nospin);

#endif
