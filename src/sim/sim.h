/* SPDX-License-Identifier: MIT */
/*
 * sim.h - the composition with simulated machines: its own part of the table of base/hooks.h (face/common.c).
 */
#ifndef STOOK_SIM_SIM_H
#define STOOK_SIM_SIM_H

#include <stdbool.h>

/* By HOOKS_SETTINGS, first: STOOK_TOPOLOGY is a setting, too. */
void sim_settings_read(char *const *environment);
/* By HOOKS_BEFORE_CACHES, first: puts the machine of STOOK_TOPOLOGY, if it is set, in place of the real one. */
void sim_start(void);

/* Lets a simulation count the same whatever the environment says: from here on settings have their defaults. */
void sim_forget_settings(void);

#endif
