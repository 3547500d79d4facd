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
#include <string.h>

struct fast fast __attribute__((aligned(64)));
uint64_t fast_start[STOOK_CACHES_MAX] __attribute__((aligned(64)));

enum { CLASS_LARGER = 4 }; /* classes tried beyond one that has no object */

static struct stook_cache *class_cache[SIZES_CLASSES];

/*
 * Every entry point needs this file, and this file malloc.c: a static C++ program whose own objects
 * ask for operator new alone would have libc's malloc for what its libraries ask for.
 */
static const void *const class_malloc __attribute__((used)) = (const void *)MALLOC_NAME(malloc);

static size_t class_bytes; /* from fast.base on, which may hold objects */

/* Why the fast way is closed: bits, set and cleared by anyone at any time. */
enum { CLASS_ACCOUNTED = 1, CLASS_PERTURBED = 2 };
static unsigned class_closed = CLASS_ACCOUNTED; /* until it is said whether they are */

static unsigned char class_byte; /* M_PERTURB's; 0: nothing is filled */

/*
 * Objects that need more than to be moved all go the cold way.  Release: pairs with FAST_TESTED(),
 * which comes first, so that a thread that passes the test sees the rest.  A thread that stores what
 * has changed meanwhile finds that out and stores again: the last store is that of the last change.
 */
static void class_publish(void)
{
    unsigned now;
    size_t bytes;

    do {
        now = __atomic_load_n(&class_closed, __ATOMIC_SEQ_CST);
        bytes = __atomic_load_n(&class_bytes, __ATOMIC_SEQ_CST);
        __atomic_store_n(&fast.size, now ? 0 : bytes, __ATOMIC_SEQ_CST);
        __atomic_store_n(&fast.limit, now ? 0 : (size_t)SIZES_MAX + 1, __ATOMIC_SEQ_CST);
    } while (now != __atomic_load_n(&class_closed, __ATOMIC_SEQ_CST) ||
             bytes != __atomic_load_n(&class_bytes, __ATOMIC_SEQ_CST));
}

static void class_close(unsigned reason, bool closed)
{
    if (closed)
        __atomic_fetch_or(&class_closed, reason, __ATOMIC_SEQ_CST);
    else
        __atomic_fetch_and(&class_closed, ~reason, __ATOMIC_SEQ_CST);
    class_publish();
}

/* The window grew: under its lock. */
static void class_grow(size_t bytes)
{
    __atomic_store_n(&class_bytes, bytes, __ATOMIC_SEQ_CST);
    class_publish();
}

static void class_accounted(bool closed)
{
    class_close(CLASS_ACCOUNTED, closed);
}

void class_perturb(unsigned char byte)
{
    start_malloc();
    if (byte == 0)
        class_close(CLASS_PERTURBED, false);
    __atomic_store_n(&class_byte, byte, __ATOMIC_RELAXED);
    if (byte != 0)
        class_close(CLASS_PERTURBED, true);
}

static unsigned char class_filling(void)
{
    return __atomic_load_n(&class_byte, __ATOMIC_RELAXED);
}

static __attribute__((noinline, cold)) void class_fill(void *object, unsigned char byte,
                                                       size_t size)
{
    memset(object, byte, size);
}

/* What is handed out, on its way; the object, or NULL. */
static void *class_filled(void *object, size_t size)
{
    unsigned char byte = class_filling();

    if (__builtin_expect(byte != 0, 0) && object)
        class_fill(object, (unsigned char)~byte, size);
    return object;
}

void class_make(void)
{
    struct stook_private_view view;
    uintptr_t offset[SIZES_CLASSES];
    struct stook_private_slab slab;
    uint64_t *start;
    char name[32];

    stook_private_view(&view);
    stook_private_limit();
    for (unsigned i = 0; i < SIZES_CLASSES; i++) {
        snprintf(name, sizeof(name), "malloc-%zu", sizes_of(i));
        class_cache[i] = stook_private_class(name, sizes_of(i), &offset[i]);
        if (!class_cache[i])
            stook_private_fatal("malloc cannot start: no memory for the size classes");
        start = &fast_start[offset[i] >> FAST_SLOT_SHIFT];
        stook_private_slab(class_cache[i], &slab, start);
        *start = starts_word(slab.bytes, slab.stride, slab.objects);
    }
    fast.slots = (uintptr_t)view.areas;
    fast.rseq_offset = view.rseq_offset;
    fast.base = view.base;
    fast.entries = (const uint16_t(*)[2])(const void *)view.entries;
    for (unsigned i = 0; i < SIZES_STEPS; i++)
        fast.slot[i] = view.areas + offset[sizes_class((size_t)i * SIZES_STEP)];
    stook_private_on_growing(class_grow);
    stook_private_on_closing(class_accounted);
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
    return class_filled(
        size > SIZES_MAX ? class_large(size, 1, NULL, from) : class_small(size, from), size);
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
            return class_filled(object, size);
        }
    }
    return class_filled(class_large(size, align, NULL, from), size);
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
    if (cache && start) {
        if (__builtin_expect(class_filling() != 0, 0))
            class_fill(object, class_filling(), size);
        stook_private_free(cache, object);
    } else if (cache || !stook_private_large_free(object)) {
        stook_private_bad_pointer(call, object);
    }
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
