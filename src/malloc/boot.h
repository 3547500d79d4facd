/* SPDX-License-Identifier: MIT */
/*
 * boot.h - memory for the thread that starts malloc, if a function of libc's that the start calls comes back to it:
 * another library, or the program, has defined that function and allocates in it.
 *
 * One thread takes objects, until the start has ended; any thread may free them, which does nothing.
 */
#ifndef STOOK_MALLOC_BOOT_H
#define STOOK_MALLOC_BOOT_H

#include <stddef.h>

/* Zeros at a multiple of 16 and of `align`, a power of two; NULL with errno ENOMEM. */
void *boot_alloc(size_t align, size_t size);
/* Usable bytes of an object of boot_alloc(); 0: it is none. */
size_t boot_size(const void *object);

#endif
