/* SPDX-License-Identifier: MIT */
/*
 * pages.h - the red zone behind a large object, where STOOK_DEBUG gives Z to all caches or to the name "large",
 * STOOK_HARDEN has quarantine, or AddressSanitizer or Valgrind watches.
 *
 * Such an object gets some bytes more.  Behind what was asked for its pages have a zone, and at their end a mark that
 * says how much that was: large objects have no column.  An overrun that reaches the mark is seen by that: with
 * STOOK_HARDEN it is checked by a secret.
 *
 * AddressSanitizer and Valgrind report each access to the zone and to a freed object.  For that the library keeps the
 * pages of the last PAGES_HELD objects of up to PAGES_HELD_MAX bytes, closed to the program, and frees them later.
 */
#ifndef STOOK_DEBUG_PAGES_H
#define STOOK_DEBUG_PAGES_H

#include "debug/tools.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Whether they have it.  Written once, before the first object. */
extern bool pages_zoned __attribute__((visibility("hidden")));

/* When the debug flags are known, before the first object. */
void pages_start(void);

enum { PAGES_HELD = 16, PAGES_HELD_MAX = 1 << 20 };

/* The slow halves of what follows. */
void pages_mark(void *object, size_t had, size_t size);
void *pages_hold_slow(void *object);
bool pages_holds_slow(const void *object);
size_t pages_marked(const void *object);
void pages_look(void *object, uint64_t where);

/* Bytes to ask for in place of `size`, which is at most PTRDIFF_MAX. */
static inline size_t pages_wanted(size_t size)
{
    return __builtin_expect(pages_zoned, 0) ? size + 2 * sizeof(uint64_t) : size;
}

/* A large object, or NULL, is used for `size` bytes from now on; it was for `had`, 0: it is a new one. */
static inline void pages_set(void *object, size_t had, size_t size)
{
    if (__builtin_expect(pages_zoned, 0) && object)
        pages_mark(object, had, size);
}

/* As large_size(), of any pointer. */
static inline size_t pages_size(const void *object, size_t large)
{
    return __builtin_expect(pages_zoned, 0) && large > 0 ? pages_marked(object) : large;
}

/* Whether a pointer is an object that was freed and is held back. */
static inline bool pages_holds(const void *object)
{
    return __builtin_expect(tools_watch, 0) && pages_holds_slow(object);
}

/* In place of an object, or any pointer, that is freed: what is to go, or NULL. */
static inline void *pages_hold(void *object)
{
    return __builtin_expect(tools_watch, 0) ? pages_hold_slow(object) : object;
}

/* Before a large object, or any pointer, is resized or freed. */
static inline void pages_check(void *object)
{
    if (__builtin_expect(pages_zoned, 0)) {
        tools_quiet(true);
        pages_look(object, 0);
        tools_quiet(false);
    }
}

#endif
