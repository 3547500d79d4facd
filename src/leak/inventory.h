/* SPDX-License-Identifier: MIT */
/*
 * inventory.h - the objects of this process's heap, from the page map and the marks of slabs: no lock, so other threads
 * are stopped, or what they move meanwhile may be missed.
 *
 * An object that is out of its slab is a user's, unless a sheaf has it.  Every sheaf is an object of one of the
 * library's own caches, wherever it is: with a CPU, in a barn, in a reserve, waiting for readers.  So their walk
 * finds all of them.
 */
#ifndef STOOK_LEAK_INVENTORY_H
#define STOOK_LEAK_INVENTORY_H

#include "leak/heap.h"

/* Bytes that inventory_take() needs, without the tables' contents. */
size_t inventory_size(void);
/* Fills the tables, in memory of inventory_size() bytes, which are zeros.  False: threads that could not be
 * stopped made more of them meanwhile. */
bool inventory_take(struct heap *heap, void *memory);
/* What the library itself knows of objects besides sheaves, for its user: reserves, for example.  A root. */
void inventory_roots(struct heap *heap);

#endif
