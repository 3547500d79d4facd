/* SPDX-License-Identifier: MIT */
/*
 * fast.h - the fast path of malloc and free; class.h has all other cases.
 *
 *   malloc:  size of a class; its slot from a table; pop; the mark of a freed object goes
 *   free:    address where objects may lie; the cache's index from the page map; the start of an object
 *            of a class, which has no mark; mark; push
 *
 * One struct of constants beside the code serves both.  Before the start `size` is 0 and all slots are
 * NULL, so nothing is fast.  A page that is in no slab has cache 0, which is no class, as the library's own
 * caches are none: there is nothing else to test.  In locked mode all of this is closed, and class.c does the same by
 * fast.pop and fast.push.
 */
#ifndef STOOK_MALLOC_FAST_H
#define STOOK_MALLOC_FAST_H

#include "kmalloc/private.h"
#include "malloc/sizes.h"
#include "malloc/starts.h"

#define STOOK_INLINE_NO_PIN /* the library is linked with -z nodelete, or keeps its object itself */
#include <stook/inline.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { FAST_PAGE_SHIFT = 12, FAST_SLOT_SHIFT = 6 }; /* PAGE_SHIFT, SLOT_SHIFT */
enum fast_table { FAST_OPEN, FAST_AGAIN };

/* A section, or in locked mode the library's call of the view (kmalloc/private.h). */
typedef int fast_pop(const void *slots, intptr_t rseq_offset, void **object);
typedef int fast_push(const void *slots, intptr_t rseq_offset, void *object);

/*
 * Each pop and push stores the top of a slot, 8 bytes behind the start of a cache line (sheaf/slot.h).  A load that
 * follows waits for that store if the two addresses differ by a multiple of 4 KiB: 0.8 ns a pair, if the linker
 * puts this struct at the start of a page.  So what every call loads lies elsewhere in its line.  Of the slots every
 * eighth lies there: those of 112, 240, 368 bytes and so on.
 */
struct fast {
    uintptr_t slots;          /* slot 0 in CPU 0's area */
    uintptr_t keeps_deepbind; /* STOOK_DEEPBIND=keep; no call loads it, as above */
    uintptr_t base;           /* of the window */
    size_t size; /* bytes from there on in which objects may lie: it grows; 0: closed */
    const uint16_t (*entries)[2]; /* the page map: [0] is the cache's index: bytes in order */
    intptr_t rseq_offset;
    uint64_t key;       /* of the mark of a freed object */
    fast_pop *pop;      /* in locked mode, else NULL */
    fast_push *push;    /* likewise */
    size_t size_locked; /* what `size` would be, in locked mode */
    /* By size / 16, rounded up: the class's in CPU 0's area; NULL: closed, or not made yet.  FAST_AGAIN: where nothing but
     * locked mode and the countdown to samples closes FAST_OPEN. */
    const void *slot[2][SIZES_STEPS];
};
_Static_assert(offsetof(struct fast, keeps_deepbind) == 8, "where a size can be");
_Static_assert(offsetof(struct fast, slot[FAST_OPEN][7]) % 64 == 8,
               "of 112 bytes, not of 32 or 64");
extern struct fast fast __attribute__((visibility("hidden")));
/* Which addresses are starts (starts.h), by the cache's index; 0: it is no class. */
extern uint64_t fast_start[STOOK_CACHES_MAX] __attribute__((visibility("hidden")));

/*
 * What is tested first: a thread that finds it set sees the rest.  Pairs with class_show*() of class.c;
 * x86 keeps loads in order by itself, and compares with memory.
 */
#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__)
#define FAST_TESTED(member) (fast.member)
#else
#define FAST_TESTED(member) __atomic_load_n(&fast.member, __ATOMIC_ACQUIRE)
#endif

/* What is stored in an object that free took (kmalloc/private.h). */
static inline __attribute__((always_inline)) uint64_t fast_marked(const void *object)
{
    return fast.key ^ (uintptr_t)object;
}

static inline __attribute__((always_inline)) bool fast_alloc_by(fast_pop *pop,
                                                                enum fast_table table, size_t size,
                                                                void **object)
{
    const void *slot;

    if (__builtin_expect(size > SIZES_MAX, 0))
        return false;
    slot = FAST_TESTED(slot[table][(size + SIZES_STEP - 1) / SIZES_STEP]);
    if (__builtin_expect(slot == NULL, 0) ||
        __builtin_expect(!pop(slot, fast.rseq_offset, object), 0))
        return false;
    *stook_private_mark(*object) = 0;
    return true;
}

static inline __attribute__((always_inline)) bool fast_alloc(enum fast_table table, size_t size,
                                                             void **object)
{
    return fast_alloc_by(stook_rseq_pop, table, size, object);
}

/* Every call takes the cold path: objects are accounted or traced, or malloc has not started. */
static inline bool fast_is_closed(void)
{
    return FAST_TESTED(size) == 0 && FAST_TESTED(size_locked) == 0;
}

/* Whether it is the start of an object of a class, and not free, within `size` bytes: the index of its cache. */
static inline __attribute__((always_inline)) bool fast_is_live(const void *object, size_t size,
                                                               uintptr_t *index)
{
    uintptr_t offset = (uintptr_t)object - fast.base;

    if (__builtin_expect(offset >= size, 0))
        return false;
    *index = fast.entries[offset >> FAST_PAGE_SHIFT][0];
    return __builtin_expect(
        starts_at(__atomic_load_n(&fast_start[*index], __ATOMIC_RELAXED), object) &&
            fast_marked(object) != *stook_private_mark(object),
        1);
}

static inline __attribute__((always_inline)) bool fast_free_by(fast_push *push, size_t size,
                                                               void *object)
{
    uintptr_t index;

    if (!fast_is_live(object, size, &index))
        return false;
    *stook_private_mark(object) = fast_marked(object); /* before another thread can get it */
    if (__builtin_expect(
            push((const void *)(fast.slots + (index << FAST_SLOT_SHIFT)), fast.rseq_offset, object),
            1))
        return true;
    *stook_private_mark(object) = 0; /* or the cold path would take it for freed */
    return false;
}

/* It lies where objects lie, and in no slab. */
static inline bool fast_may_be_pages(const void *object)
{
    size_t size = FAST_TESTED(size) + FAST_TESTED(size_locked); /* one of them is 0 */
    uintptr_t offset = (uintptr_t)object - fast.base;

    return offset < size && fast.entries[offset >> FAST_PAGE_SHIFT][0] == 0;
}

static inline __attribute__((always_inline)) bool fast_free(void *object)
{
    return fast_free_by(stook_rseq_push, FAST_TESTED(size), object);
}

#endif
