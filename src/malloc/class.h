/* SPDX-License-Identifier: MIT */
/*
 * class.h - the cold path of every entry point: the start, classes whose slot has no object or no room, large
 * objects, wrong pointers.
 */
#ifndef STOOK_MALLOC_CLASS_H
#define STOOK_MALLOC_CLASS_H

#include "kmalloc/private.h"

#include <stook/stook.h>

#include <stdbool.h>
#include <stddef.h>

/* Where a call of malloc returns to. */
#define CLASS_FROM __builtin_return_address(0)

/* Makes the caches of the first classes and opens the fast path, once.  The calls below do it if needed. */
void class_make(void);

/*
 * Fills what is handed out with the byte's complement, and what is freed with the byte, as M_PERTURB
 * does; 0: no longer.  Objects of calloc read as zeros; large ones are not filled when they are freed.
 */
void class_perturb(unsigned char byte);

/* At least `size` bytes at a multiple of 16; NULL with errno ENOMEM.  *zeroed, unless that is NULL: the object reads as
 * zeros already.  `from`: the code that asks for them, for profiles. */
void *class_alloc(size_t size, bool *zeroed, const void *from);
/* The same at a multiple of `align`, a power of two. */
void *class_alloc_aligned(size_t align, size_t size, const void *from);
/* Any pointer; NULL is nothing.  errno is kept.  `call` is named in the report of a wrong one.  `size`: the caller's,
 * which debug caches compare, or 0. */
void class_free_as(void *object, const char *call, enum stook_private_call as, size_t size);
/* Usable bytes of an object; 0: it is glibc's (libc_heap.h), or was reported and the program goes on. */
size_t class_size(const void *object, const char *call);

#endif
