/* SPDX-License-Identifier: MIT */
/*
 * pages.h - the red zone behind a large object, where STOOK_DEBUG gives Z to all caches or to the name "large", or
 * STOOK_HARDEN has quarantine.
 *
 * Such an object gets some bytes more.  Behind what was asked for its pages have a zone, and at their end a mark that
 * says how much that was: large objects have no column.  An overrun that reaches the mark is seen by that: with
 * STOOK_HARDEN it is checked by a secret.
 */
#ifndef STOOK_DEBUG_PAGES_H
#define STOOK_DEBUG_PAGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Whether they have it.  Written once, before the first object. */
extern bool pages_zoned __attribute__((visibility("hidden")));

/* When the debug flags are known, before the first object. */
void pages_start(void);

/* The slow halves of what follows. */
void pages_mark(void *object, size_t size);
size_t pages_marked(const void *object);
void pages_look(void *object, uint64_t where);

/* Bytes to ask for in place of `size`, which is at most PTRDIFF_MAX. */
static inline size_t pages_wanted(size_t size)
{
    return __builtin_expect(pages_zoned, 0) ? size + 2 * sizeof(uint64_t) : size;
}

/* A large object, or NULL, is used for `size` bytes from now on. */
static inline void pages_set(void *object, size_t size)
{
    if (__builtin_expect(pages_zoned, 0) && object)
        pages_mark(object, size);
}

/* As large_size(), of any pointer. */
static inline size_t pages_size(const void *object, size_t large)
{
    return __builtin_expect(pages_zoned, 0) && large > 0 ? pages_marked(object) : large;
}

/* Before a large object, or any pointer, is resized or freed. */
static inline void pages_check(void *object)
{
    if (__builtin_expect(pages_zoned, 0))
        pages_look(object, 0);
}

#endif
