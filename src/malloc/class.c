/* SPDX-License-Identifier: MIT */
#include "malloc/class.h"

#include "cache/private.h"
#include "malloc/fast.h"
#include "malloc/names.h"
#include "malloc/start.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

struct fast fast __attribute__((aligned(64)));

enum { CLASS_LARGER = 4 }; /* classes tried beyond one that has no object */

static struct stook_cache *class_cache[SIZES_CLASSES];

/*
 * Every entry point needs this file, and this file malloc.c: a static C++ program whose own objects
 * ask for operator new alone would have libc's malloc for what its libraries ask for.
 */
static const void *const class_malloc __attribute__((used)) = (const void *)MALLOC_NAME(malloc);

static size_t class_bytes; /* from fast.base on, which may hold objects */

/* Never 0, which means closed: the first granule has an entry that says that nothing is there. */
static size_t class_granules(void)
{
    size_t bytes = __atomic_load_n(&class_bytes, __ATOMIC_SEQ_CST);

    return bytes ? bytes / 16 : 1;
}

/*
 * The window grew: under its lock, so one call at a time.  A closed fast way stays closed.  Either this sees
 * that it was opened meanwhile, or class_open() sees the new size: both write first and then look.
 */
static void class_grow(size_t bytes)
{
    size_t old, granules;

    __atomic_store_n(&class_bytes, bytes, __ATOMIC_SEQ_CST);
    granules = class_granules();
    old = __atomic_load_n(&fast.granules, __ATOMIC_SEQ_CST);
    while (old != 0 && old < granules &&
           !__atomic_compare_exchange_n(&fast.granules, &old, granules, false, __ATOMIC_SEQ_CST,
                                        __ATOMIC_SEQ_CST))
        ;
}

static void class_open(void)
{
    size_t granules;

    do {
        granules = class_granules();
        __atomic_store_n(&fast.granules, granules, __ATOMIC_SEQ_CST);
    } while (granules != class_granules());
}

/*
 * Objects that are accounted all go the cold way.  Release: pairs with FAST_TESTED(), which comes first,
 * so that a thread that passes the test sees the rest.
 */
static void class_close(bool closed)
{
    if (closed)
        __atomic_store_n(&fast.granules, 0, __ATOMIC_RELEASE);
    else
        class_open();
    __atomic_store_n(&fast.limit, closed ? 0 : (size_t)SIZES_MAX + 1, __ATOMIC_RELEASE);
}

void class_make(void)
{
    struct stook_private_view view;
    uintptr_t offset[SIZES_CLASSES];
    char name[32];

    stook_private_view(&view);
    stook_private_limit();
    for (unsigned i = 0; i < SIZES_CLASSES; i++) {
        snprintf(name, sizeof(name), "malloc-%zu", sizes_of(i));
        class_cache[i] = stook_private_class(name, sizes_of(i), &offset[i]);
        if (!class_cache[i])
            stook_private_fatal("malloc cannot start: no memory for the size classes");
    }
    fast.slots = (uintptr_t)view.areas;
    fast.rseq_offset = view.rseq_offset;
    fast.base = view.base;
    fast.entries = (const uint16_t(*)[2])(const void *)view.entries;
    for (unsigned i = 0; i < SIZES_STEPS; i++)
        fast.slot[i] = view.areas + offset[sizes_class((size_t)i * SIZES_STEP)];
    stook_private_on_growing(class_grow);
    stook_private_on_closing(class_close);
}

static void *class_large(size_t size, size_t align, bool *zeroed, const void *from)
{
    if (size > PTRDIFF_MAX) {
        errno = ENOMEM;
        return NULL;
    }
    return stook_private_large_alloc(size, align, zeroed, from);
}

/*
 * The class has none: because memory is short, or because a handler interrupted a call on this
 * class and cannot wait for it.  Larger classes may have some at hand, under other locks; but not for
 * one who is at his limit.  malloc's only error is ENOMEM.
 */
static __attribute__((noinline, cold)) void *class_alloc_larger(unsigned class, const void *from)
{
    void *object = NULL;

    for (unsigned i = 1;
         !object && errno != EDQUOT && i <= CLASS_LARGER && class + i < SIZES_CLASSES; i++)
        object = stook_private_alloc(class_cache[class + i], from);
    if (!object)
        errno = ENOMEM;
    return object;
}

static void *class_small(size_t size, const void *from)
{
    unsigned class = sizes_class(size);
    void *object = stook_private_alloc(class_cache[class], from);

    return __builtin_expect(object != NULL, 1) ? object : class_alloc_larger(class, from);
}

void *class_alloc(size_t size, const void *from)
{
    start_malloc();
    return size > SIZES_MAX ? class_large(size, 1, NULL, from) : class_small(size, from);
}

void *class_alloc_zeroed(size_t size, bool *zeroed, const void *from)
{
    start_malloc();
    *zeroed = false;
    return size > SIZES_MAX ? class_large(size, 1, zeroed, from) : class_small(size, from);
}

void *class_alloc_aligned(size_t align, size_t size, const void *from)
{
    start_malloc();
    if (align <= STOOK_ALIGN_MAX && size <= SIZES_MAX) {
        /* Slabs begin at a page: a class that is a multiple of the alignment has it throughout. */
        unsigned class = sizes_class(size < align ? align : size);
        while (class < SIZES_CLASSES && sizes_of(class) % align != 0)
            class ++;
        if (class < SIZES_CLASSES) {
            void *object = stook_private_alloc(class_cache[class], from);
            if (!object)
                errno = ENOMEM;
            return object;
        }
    }
    return class_large(size, align, NULL, from);
}

void class_free(void *object, const char *call)
{
    struct stook_cache *cache;
    bool start;
    size_t size;

    if (!object)
        return;
    start_malloc();
    cache = stook_private_cache_of(object, &size, &start);
    if (cache && start)
        stook_free(cache, object);
    else if (cache || !stook_private_large_free(object))
        stook_private_bad_pointer(call, object);
}

size_t class_size(const void *object, const char *call)
{
    bool start;
    size_t size;

    start_malloc();
    if (stook_private_cache_of(object, &size, &start)) {
        if (!start)
            stook_private_bad_pointer(call, object);
        return size;
    }
    size = stook_private_large_size(object);
    if (size == 0)
        stook_private_bad_pointer(call, object);
    return size;
}
