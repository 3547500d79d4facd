/* SPDX-License-Identifier: MIT */
/*
 * names.h - what the entry points are called: as libc's, or under the prefix stook_libc_ in builds
 * with STOOK_MALLOC_PREFIX, which leave libc's malloc alone (for sanitizers).
 */
#ifndef STOOK_MALLOC_NAMES_H
#define STOOK_MALLOC_NAMES_H

#include "malloc/glibc_names.h"

#include <malloc.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#ifdef STOOK_MALLOC_PREFIX
#define MALLOC_NAME(name) stook_libc_##name
#else
#define MALLOC_NAME(name) name
#endif
#define MALLOC_API __attribute__((visibility("default")))

/*
 * Other names that glibc has for the same call.  A program whose own malloc() and free() stand over __libc_malloc() and
 * __libc_free() leaves posix_memalign() and others to libc, which are ours: so these must be ours, too.
 */
#if defined(__GLIBC__) && !defined(STOOK_MALLOC_PREFIX)
#define MALLOC_ALSO(name, other) __asm__(".weak " #other "\n .set " #other ", " #name);
#else
#define MALLOC_ALSO(name, other)
#endif

MALLOC_API void *MALLOC_NAME(malloc)(size_t size);
MALLOC_API void *MALLOC_NAME(calloc)(size_t count, size_t size);
MALLOC_API void *MALLOC_NAME(realloc)(void *object, size_t size);
MALLOC_API void *MALLOC_NAME(reallocarray)(void *object, size_t count, size_t size);
MALLOC_API void MALLOC_NAME(free)(void *object);
MALLOC_API void MALLOC_NAME(free_sized)(void *object, size_t size);
MALLOC_API void MALLOC_NAME(free_aligned_sized)(void *object, size_t align, size_t size);
MALLOC_API void *MALLOC_NAME(aligned_alloc)(size_t align, size_t size);
MALLOC_API int MALLOC_NAME(posix_memalign)(void **object, size_t align, size_t size);
MALLOC_API void *MALLOC_NAME(memalign)(size_t align, size_t size);
MALLOC_API void *MALLOC_NAME(valloc)(size_t size);
MALLOC_API void *MALLOC_NAME(pvalloc)(size_t size);
MALLOC_API size_t MALLOC_NAME(malloc_usable_size)(void *object);
MALLOC_API int MALLOC_NAME(malloc_trim)(size_t pad);
MALLOC_API struct mallinfo MALLOC_NAME(mallinfo)(void);
MALLOC_API struct mallinfo2 MALLOC_NAME(mallinfo2)(void);
MALLOC_API int MALLOC_NAME(mallopt)(int parameter, int value);
MALLOC_API int MALLOC_NAME(malloc_info)(int options, FILE *stream);
MALLOC_API void MALLOC_NAME(malloc_stats)(void);

#endif
