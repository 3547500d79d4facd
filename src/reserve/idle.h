/* SPDX-License-Identifier: MIT */
/*
 * idle.h - warm memory that the program has not needed for a second goes back.
 */
#ifndef STOOK_RESERVE_IDLE_H
#define STOOK_RESERVE_IDLE_H

/* HOOKS_DUE_WARM: gives a step of it back.  Within the context, with no lock. */
void idle_give_back(void);

#endif
