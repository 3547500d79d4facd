/* SPDX-License-Identifier: MIT */
/*
 * late.h - objects that a process allocated while it was searched.
 *
 * A search takes the objects that are in use first, and then follows pointers.  What the process allocates in between
 * is unknown to it, and so is all that only such an object points to: the rest of a list that grows at its head.  So
 * words that point to no object in use are kept.  Those that are objects in use by a second snapshot are followed, too.
 */
#ifndef STOOK_LOOK_LATE_H
#define STOOK_LOOK_LATE_H

#include "look/heap.h"
#include "look/reach.h"

struct late;

/* For words in [begin, end). */
struct late *late_new(uint64_t begin, uint64_t end);
void late_close(struct late *late);

/* Keeps those words that point to no object in use. */
void late_note(struct late *late, const struct reach *reach, const uint64_t *words, size_t n);
/* Follows what was kept, by snapshots of its own, until none of it is new.  `renew` is called before a round, since what
 * was read before is out of date. */
void late_follow(struct late *late, int pid, struct reach *reach, void (*renew)(void *context),
                 void *context);

#endif
