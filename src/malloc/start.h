/* SPDX-License-Identifier: MIT */
/*
 * start.h - malloc at the start and the end of a process.
 */
#ifndef STOOK_MALLOC_START_H
#define STOOK_MALLOC_START_H

/* Malloc is ready when this returns: any thread, any time, the loader's first malloc included. */
void start_malloc(void);

#endif
