/* SPDX-License-Identifier: MIT */
/*
 * Includes the adapter this worker is built for (-DADAPTER_HEADER, -DADAPTER_NAME) and states the
 * interface every adapter fills:
 *
 *   adapter_t                   what a timed loop holds in a register: a cache, or a size
 *   adapter_open(size)          makes it, for objects of one size
 *   adapter_alloc(a)            one object, or NULL
 *   adapter_free(a, object)     takes it back, from any thread
 *   ADAPTER_ANY_SIZE            1 if these two exist:
 *   adapter_alloc_size(size)    an object of any size: a malloc
 *   adapter_free_any(object)
 *   adapter_reserve()           bytes of free memory that the allocator itself says it keeps warm
 *                               for the whole process, or -1 where it says nothing of the kind
 *   adapter_check()             ends the worker if not the allocator it is named after answers
 *   ADAPTER_HANDOFF_ONLY        1 for what can only pass a pointer on: the bare ring
 *
 * Functions are static inline and call the allocator by its own symbol: the call is the same
 * instruction as in a program that uses that allocator.
 */
#ifndef STOOK_BENCH_ADAPTER_H
#define STOOK_BENCH_ADAPTER_H

#include "case.h"

#include ADAPTER_HEADER

#ifndef ADAPTER_ANY_SIZE
#define ADAPTER_ANY_SIZE 0
#endif

#ifndef ADAPTER_HANDOFF_ONLY
#define ADAPTER_HANDOFF_ONLY 0
#endif

#endif
