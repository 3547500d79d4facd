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
static bool class_limited; /* what is handed out is charged: nothing is fast */
/* Then: the first class's index in the page map, and how many granules the arena has; 0 where the
 * classes' indices do not follow each other. */
static size_t class_first, class_granules;

/*
 * Every entry point needs this file, and this file malloc.c: a static C++ program whose own objects
 * ask for operator new alone would have libc's malloc for what its libraries ask for.
 */
static const void *const class_malloc __attribute__((used)) = (const void *)MALLOC_NAME(malloc);

void class_make(void)
{
    struct stook_private_view view;
    uintptr_t offset[SIZES_CLASSES];
    char name[32];

    stook_private_view(&view);
    class_limited = stook_private_limit();
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
    if (class_limited) {
        class_first = offset[0] >> FAST_SLOT_SHIFT;
        class_granules = view.size / 16;
        for (unsigned i = 0; i < SIZES_CLASSES; i++)
            if (offset[i] >> FAST_SLOT_SHIFT != class_first + i)
                class_granules = 0;
        return;
    }
    for (unsigned i = 0; i < SIZES_STEPS; i++)
        fast.slot[i] = view.areas + offset[sizes_class((size_t)i * SIZES_STEP)];
    /* Release, and the tests against these come first: who passes them sees the rest (x86 keeps
     * loads in order; elsewhere nothing is fast). */
    __atomic_store_n(&fast.granules, view.size / 16, __ATOMIC_RELEASE);
    __atomic_store_n(&fast.limit, (size_t)SIZES_MAX + 1, __ATOMIC_RELEASE);
}

static bool class_charge(size_t bytes)
{
    return !class_limited || stook_private_charge(bytes);
}

static void class_uncharge(size_t bytes)
{
    if (class_limited && bytes > 0)
        stook_private_uncharge(bytes);
}

static void *class_object(unsigned class, bool *refused)
{
    *refused = false;
    return class_limited ? stook_private_limited_alloc(class_cache[class], sizes_of(class), refused)
                         : stook_alloc(class_cache[class], STOOK_WAIT);
}

static void *class_large(size_t size, size_t align, bool *zeroed)
{
    size_t takes = 0;
    void *object;

    if (size > PTRDIFF_MAX) {
        errno = ENOMEM;
        return NULL;
    }
    if (class_limited && !class_charge(takes = stook_private_large_takes(size, align)))
        return NULL;
    object = stook_private_large_alloc(size, align, zeroed);
    if (!object)
        class_uncharge(takes);
    return object;
}

void *class_resize(void *object, size_t size)
{
    size_t had = 0, takes = 0;
    void *result = object;

    if (class_limited) { /* as what it will take while it still has what it had */
        had = stook_private_large_size(object);
        takes = stook_private_large_takes(size, 1);
        takes = takes > had ? takes : had;
        if (takes > had && !class_charge(takes - had))
            return NULL;
    }
    if (!stook_private_large_resize(object, size))
        result = stook_private_large_move(object, size);
    if (class_limited)
        class_uncharge(takes - (result ? stook_private_large_size(result) : had));
    return result;
}

/*
 * The class has none: because memory is short, or because a handler interrupted a call on this
 * class and cannot wait for it.  Larger classes may have some at hand, under other locks.
 */
static __attribute__((noinline, cold)) void *class_alloc_larger(unsigned class)
{
    void *object = NULL;
    bool refused = false;

    for (unsigned i = 1; !object && !refused && i <= CLASS_LARGER && class + i < SIZES_CLASSES; i++)
        object = class_object(class + i, &refused);
    return object;
}

static void *class_small(size_t size)
{
    unsigned class = sizes_class(size);
    bool refused;
    void *object = class_object(class, &refused);

    return __builtin_expect(object || refused, 1) ? object : class_alloc_larger(class);
}

void *class_alloc(size_t size)
{
    start_malloc();
    return size > SIZES_MAX ? class_large(size, 1, NULL) : class_small(size);
}

void *class_alloc_zeroed(size_t size, bool *zeroed)
{
    start_malloc();
    *zeroed = false;
    return size > SIZES_MAX ? class_large(size, 1, zeroed) : class_small(size);
}

void *class_alloc_aligned(size_t align, size_t size)
{
    start_malloc();
    if (align <= STOOK_ALIGN_MAX && size <= SIZES_MAX) {
        /* Slabs begin at a page: a class that is a multiple of the alignment has it throughout. */
        unsigned class = sizes_class(size < align ? align : size);
        while (class < SIZES_CLASSES && sizes_of(class) % align != 0)
            class ++;
        if (class < SIZES_CLASSES) {
            bool refused;
            return class_object(class, &refused);
        }
    }
    return class_large(size, align, NULL);
}

static void class_free_large(void *object, const char *call)
{
    size_t size = class_limited ? stook_private_large_size(object) : 0;

    if (!stook_private_large_free(object))
        stook_private_bad_pointer(call, object);
    class_uncharge(size);
}

/* With a limit, what fast_free() does: its class by the page map, SIZES_CLASSES for anything else. */
static size_t class_of(const void *object)
{
    uintptr_t offset = (uintptr_t)object - fast.base, granule = offset >> 4 | offset << 60;

    if (granule >= class_granules)
        return SIZES_CLASSES;
    size_t class = fast.entries[granule >> (FAST_PAGE_SHIFT - 4)][0] - class_first;
    return class < SIZES_CLASSES ? class : SIZES_CLASSES;
}

void class_free(void *object, const char *call)
{
    struct stook_cache *cache;
    size_t size, class;
    bool start;

    if (!object)
        return;
    start_malloc();
    if (class_limited && (class = class_of(object)) < SIZES_CLASSES) {
        stook_private_limited_free(class_cache[class], object, sizes_of((unsigned)class));
        return;
    }
    cache = stook_private_cache_of(object, &size, &start);
    if (!cache) {
        class_free_large(object, call);
        return;
    }
    if (!start)
        stook_private_bad_pointer(call, object);
    stook_free(cache, object);
    if (class_limited && size <= SIZES_MAX && class_cache[sizes_class(size)] == cache)
        class_uncharge(size);
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
