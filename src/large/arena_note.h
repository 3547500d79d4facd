/* SPDX-License-Identifier: MIT */
/*
 * arena_note.h - notes of runs and spans, by their owners.
 */
#ifndef STOOK_LARGE_ARENA_NOTE_H
#define STOOK_LARGE_ARENA_NOTE_H

#include "page/arena.h"

/*
 * ARENA_NOTE bytes for the owner of a run or a span: zeros when it is made, if arena_unnote() was called before
 * it was freed.  Memory that is not touched before the first note is written, and for runs not mapped.  False:
 * a limit refuses that, or a fork has the lock; never once there is a note in the process.
 */
const void *arena_note(const void *object, bool span);
bool arena_set_note(const void *object, bool span, uint64_t note);
void arena_unnote(const void *object, bool span);

#endif
