/* SPDX-License-Identifier: MIT */
/*
 * common.h - the functions of the table of base/hooks.h that hooks.c and lean.c share.
 */
#ifndef STOOK_FACE_COMMON_H
#define STOOK_FACE_COMMON_H

#include "base/hooks.h"

/* hooks.start: also what simulated machines begin with (STOOK_SIM). */
bool common_start(enum hooks_start phase, char *const *environment);
/* hooks.due */
bool common_due(enum hooks_due what, void *span, size_t blocks);
/* hooks.fork */
void common_fork(enum hooks_fork phase);

#endif
