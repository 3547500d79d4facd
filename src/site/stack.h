/* SPDX-License-Identifier: MIT */
/*
 * stack.h - the calls that this thread is in.
 */
#ifndef STOOK_SITE_STACK_H
#define STOOK_SITE_STACK_H

#include <stdint.h>

/*
 * Code addresses, innermost first, at most `most` (not 0); how many.  `from` is the first of them, and is all
 * there is if the unwinder does not meet it; 0: from the caller on.
 *
 * Stacks are unwound by the compiler's library and the tables of the program: frame pointers are nowhere to be
 * relied on.  That takes no memory and, from glibc 2.35 on, no lock; some 3 KiB of stack.  A handler that comes
 * meanwhile gets `from` alone.
 */
unsigned stack_walk(uint64_t from, uint64_t *frames, unsigned most);

#endif
