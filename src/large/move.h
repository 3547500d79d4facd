/* SPDX-License-Identifier: MIT */
/*
 * move.h - resident pages move to other addresses.
 */
#ifndef STOOK_LARGE_MOVE_H
#define STOOK_LARGE_MOVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct zone;

/* Moves the pages of [from, from+size) to `to`; both ranges stay mapped.  false: `from` keeps its pages, and `to`
 * has fresh ones. */
bool move_range(void *from, void *to, size_t size);

/* The resident pages of a free block move to one that was taken and has none; how many.  The free one has none
 * then.  Under the zone's lock. */
unsigned move_block(struct zone *zone, uint32_t to);

#endif
