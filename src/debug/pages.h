/* SPDX-License-Identifier: MIT */
/*
 * pages.h - the red zone behind a large object.  Large objects have one if STOOK_DEBUG gives Z to all caches or to the
 * name "large", if STOOK_HARDEN has quarantine, or if AddressSanitizer or Valgrind watches.
 *
 * Such an object gets some bytes more.  Behind the requested size its pages have a zone, and at their end a mark, which
 * holds the requested size, since large objects have no column.  An overrun that reaches the mark makes it invalid; with
 * STOOK_HARDEN the mark depends on a secret.
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

/* Whether large objects have zones.  Written once, before the first object. */
extern bool pages_zoned __attribute__((visibility("hidden")));

/* When the debug flags are known, before the first object. */
void pages_start(void);

enum { PAGES_HELD = 16, PAGES_HELD_MAX = 1 << 20 };

/* The slow halves of the inline functions below. */
void pages_mark(void *object, size_t had, size_t size);
void *pages_hold_slow(void *object);
bool pages_holds_slow(const void *object);
size_t pages_marked(const void *object);
void pages_validate(void *object);

/* The number of bytes to request in place of `size`, which is at most PTRDIFF_MAX. */
static inline size_t pages_wanted(size_t size)
{
    return __builtin_expect(pages_zoned, 0) ? size + 2 * sizeof(uint64_t) : size;
}

/* Writes zone and mark of a large object (or NULL) whose requested size is now `size` and was `had`; 0: it is new. */
static inline void pages_set(void *object, size_t had, size_t size)
{
    if (__builtin_expect(pages_zoned, 0) && object)
        pages_mark(object, had, size);
}

/* The requested size of the object that the pointer may be; `large` is its large_size(). */
static inline size_t pages_size(const void *object, size_t large)
{
    return __builtin_expect(pages_zoned, 0) && large > 0 ? pages_marked(object) : large;
}

/* Whether a pointer is a freed object whose pages the library keeps. */
static inline bool pages_holds(const void *object)
{
    return __builtin_expect(tools_watch, 0) && pages_holds_slow(object);
}

/* Keeps the pages of an object that is freed (or any pointer); returns the object to free in its place, or NULL. */
static inline void *pages_hold(void *object)
{
    return __builtin_expect(tools_watch, 0) ? pages_hold_slow(object) : object;
}

/* Before a large object, or any pointer, is resized or freed. */
static inline void pages_check(void *object)
{
    if (__builtin_expect(pages_zoned, 0)) {
        tools_quiet(true);
        pages_validate(object);
        tools_quiet(false);
    }
}

#endif
