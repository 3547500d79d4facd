/* SPDX-License-Identifier: MIT */
/*
 * guard_pool.h - the pages of the guard, and which of its slots is used next.
 */
#ifndef STOOK_GUARD_GUARD_POOL_H
#define STOOK_GUARD_GUARD_POOL_H

#include "guard/guard.h"

/* Makes the pool, once; without address space there is none. */
void guard_map(void);

/* BUSY, the caller's: a slot that was never used, else the one that was freed first.  NULL: all are in use. */
struct guard_slot *guard_find(void);
/* BUSY, the caller's, if its word is still this one. */
bool guard_take(struct guard_slot *slot, uint64_t word);
/* The slot's owner lets go of it. */
void guard_set(struct guard_slot *slot, enum guard_state state);

#endif
