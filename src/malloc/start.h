/* SPDX-License-Identifier: MIT */
/*
 * start.h - malloc at the start and the end of a process.
 */
#ifndef STOOK_MALLOC_START_H
#define STOOK_MALLOC_START_H

#include <stdbool.h>

/* Malloc is ready when this returns: any thread, any time, the loader's first malloc included.  False: this thread
 * is starting it, and has come back: boot.h serves it. */
bool start_malloc(void);

#endif
