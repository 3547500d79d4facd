/* SPDX-License-Identifier: MIT */
/*
 * fail.h - allocations of caches with the flag A fail on purpose, as STOOK_FAIL says.
 */
#ifndef STOOK_DEBUG_FAIL_H
#define STOOK_DEBUG_FAIL_H

#include <stdbool.h>
#include <stddef.h>

/* Whether an allocation of so many bytes is to fail.  Any context. */
bool fail_now(size_t bytes);

/* Reads the setting, before the first cache. */
void fail_start(void);
/* The same of a text; false: it is none. */
bool fail_read(const char *text);

#endif
