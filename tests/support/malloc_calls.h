/* SPDX-License-Identifier: MIT */
/*
 * malloc_calls.h - the malloc under test, by its name or its prefixed name, through pointers the
 * compiler knows nothing about: it may drop or merge calls of functions called malloc.
 */
#ifndef TESTS_SUPPORT_MALLOC_CALLS_H
#define TESTS_SUPPORT_MALLOC_CALLS_H

#include "malloc/names.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CALLS(type, name, ...)                                                                     \
    __attribute__((unused)) static type (*volatile t_##name)(__VA_ARGS__) = MALLOC_NAME(name)

CALLS(void *, malloc, size_t);
CALLS(void *, calloc, size_t, size_t);
CALLS(void *, realloc, void *, size_t);
CALLS(void *, reallocarray, void *, size_t, size_t);
CALLS(void, free, void *);
CALLS(void, free_sized, void *, size_t);
CALLS(void, free_aligned_sized, void *, size_t, size_t);
CALLS(void *, aligned_alloc, size_t, size_t);
CALLS(int, posix_memalign, void **, size_t, size_t);
CALLS(void *, memalign, size_t, size_t);
CALLS(void *, valloc, size_t);
CALLS(void *, pvalloc, size_t);
CALLS(size_t, malloc_usable_size, void *);
CALLS(int, malloc_trim, size_t);
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
CALLS(struct mallinfo, mallinfo, void);
CALLS(struct mallinfo2, mallinfo2, void);
CALLS(int, mallopt, int, int);
CALLS(int, malloc_info, int, FILE *);
CALLS(void, malloc_stats, void);

/* Makes all size classes: the first objects of one come from a larger class. */
__attribute__((unused)) static void calls_make_classes(void)
{
    for (size_t size = 16; size <= 32768; size += 16)
        for (int i = 0; i < 130; i++)
            t_free(t_malloc(size));
}

/* Outside of cmocka's thread: says where, and aborts. */
#define CHECK(condition)                                                                           \
    ((condition) ? (void)0                                                                         \
                 : (fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition), abort()))

/*
 * Fills and checks an object so that any other's bytes, or a shifted copy, are seen.  Megabytes byte by
 * byte: ThreadSanitizer, which looks at each, has nothing to find in an object that one thread has.
 */
#define CALLS_BYTES __attribute__((unused, no_sanitize("thread")))
CALLS_BYTES static inline unsigned char calls_byte(uint64_t seed, size_t at)
{
    return (unsigned char)((seed * 0x9e3779b97f4a7c15u >> 32) + at * 131 + (at >> 8));
}

CALLS_BYTES static void calls_fill(void *object, size_t from, size_t size, uint64_t seed)
{
    unsigned char *p = object;

    for (size_t i = from; i < size; i++)
        p[i] = calls_byte(seed, i);
}

CALLS_BYTES static int calls_holds(const void *object, size_t size, uint64_t seed)
{
    const unsigned char *p = object;

    for (size_t i = 0; i < size; i++)
        if (p[i] != calls_byte(seed, i))
            return 0;
    return 1;
}

#endif
