/* SPDX-License-Identifier: MIT */
/*
 * realloc.h - realloc of an object, by any of its names.
 */
#ifndef STOOK_MALLOC_REALLOC_H
#define STOOK_MALLOC_REALLOC_H

#include <stddef.h>

/* Neither is 0.  NULL with errno, and the object stays as it was. */
void *realloc_object(void *object, size_t size, const void *from);

#endif
