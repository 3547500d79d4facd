/* SPDX-License-Identifier: MIT */
#ifndef STOOK_LAB_ENVIRONMENT_H
#define STOOK_LAB_ENVIRONMENT_H

/*
 * Forgets the settings that change what the library does, and so what is counted; before the
 * library's first call.  The mode stays, since both count the same, and STOOK_ARENA, which is room.
 */
void lab_environment(void);

#endif
