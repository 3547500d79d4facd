/* SPDX-License-Identifier: MIT */
/*
 * fast.h - the way of malloc and free that is gone nearly always; everything else is class.h's.
 *
 *   malloc:  size below the limit; its slot from a table; pop
 *   free:    address where objects lie, and a multiple of 16; the cache's index from the page map; push
 *
 * One struct of constants beside the code serves both.  Before the start `limit` and `size` are 0,
 * so nothing is fast.  The library's own objects lie elsewhere; a page that is in no slab has cache 0, whose slots never get a sheaf: there
 * is nothing else to test.  In locked mode all pops and pushes fail here and go the cold way.
 */
#ifndef STOOK_MALLOC_FAST_H
#define STOOK_MALLOC_FAST_H

#include "malloc/sizes.h"

#define STOOK_INLINE_NO_PIN /* linked with -z nodelete, as the library is */
#include <stook/inline.h>

#include <stdbool.h>
#include <stdint.h>

enum { FAST_PAGE_SHIFT = 12, FAST_SLOT_SHIFT = 6 }; /* PAGE_SHIFT, SLOT_SHIFT */

struct fast {
    size_t limit;    /* requests below it have a class */
    uintptr_t slots; /* slot 0 in CPU 0's area */
    intptr_t rseq_offset;
    uintptr_t base;  /* of the window */
    size_t granules; /* of 16 bytes from there on in which objects may lie: it grows; 0: closed */
    const uint16_t (*entries)[2];  /* the page map: [0] is the cache's index: bytes in order */
    const void *slot[SIZES_STEPS]; /* the class's in CPU 0's area, by size / 16, rounded up */
};
extern struct fast fast __attribute__((visibility("hidden")));

/*
 * What is tested first: who finds it set sees the rest.  Pairs with the releases in class_close();
 * x86 keeps loads in order by itself, and compares with memory.
 */
#if defined(__x86_64__)
#define FAST_TESTED(member) (fast.member)
#else
#define FAST_TESTED(member) __atomic_load_n(&fast.member, __ATOMIC_ACQUIRE)
#endif

static inline __attribute__((always_inline)) bool fast_alloc(size_t size, void **object)
{
    return __builtin_expect(size < FAST_TESTED(limit), 1) &&
           __builtin_expect(
               stook_rseq_pop(fast.slot[(size + 15) / SIZES_STEP], fast.rseq_offset, object), 1);
}

static inline __attribute__((always_inline)) bool fast_free(void *object)
{
    /* Turned by four bits, an address that is no multiple of 16 is beyond any arena. */
    size_t granules = FAST_TESTED(granules);
    uintptr_t offset = (uintptr_t)object - fast.base;
    uintptr_t granule = offset >> 4 | offset << 60;

    if (__builtin_expect(granule >= granules, 0))
        return false;
    uintptr_t slot = (uintptr_t)fast.entries[granule >> (FAST_PAGE_SHIFT - 4)][0]
                     << FAST_SLOT_SHIFT;
    return __builtin_expect(
        stook_rseq_push((const void *)(fast.slots + slot), fast.rseq_offset, object), 1);
}

#endif
