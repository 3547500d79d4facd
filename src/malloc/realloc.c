/* SPDX-License-Identifier: MIT */
/*
 * realloc.c - an object grows or shrinks: within its class or pages, in place by pages behind it,
 * by moving its pages, or by copying, in this order.
 */
#include "kmalloc/private.h"
#include "malloc/boot.h"
#include "malloc/class.h"
#include "malloc/fast.h"
#include "malloc/libc_heap.h"
#include "malloc/names.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>

enum {
    REALLOC_SLACK = 8, /* what had to move once because it grew gets 1/8 more, to grow in place */
    REALLOC_BLOCK = 2 << 20, /* larger objects consist of whole blocks of so much */
};

static void *realloc_copy(void *object, size_t had, size_t size, size_t wanted, const void *from)
{
    void *fresh = NULL;

    if (wanted > size) {
        int saved = errno;
        fresh = class_alloc(wanted, NULL, from);
        errno = fresh ? errno : saved;
    }
    if (!fresh && !fast_alloc(FAST_OPEN, size, &fresh))
        fresh = class_alloc(size, NULL, from);
    if (!fresh)
        return NULL;
    memcpy(fresh, object, had < size ? had : size);
    if (!fast_free(object))
        class_free_as(object, "realloc", STOOK_PRIVATE_MALLOC, 0);
    return fresh;
}

/* Large before, large after. */
static void *realloc_large(void *object, size_t had, size_t size, const void *from)
{
    size_t wanted = size;
    void *moved;

    if (size <= had &&
        (had - size <= had / REALLOC_SLACK ||
         (had > REALLOC_BLOCK && (size - 1) / REALLOC_BLOCK == (had - 1) / REALLOC_BLOCK))) {
        if (__builtin_expect(fast_is_closed(), 0))
            stook_private_resized(object, size);
        return object;
    }
    if (size > PTRDIFF_MAX) {
        errno = ENOMEM;
        return NULL;
    }
    moved = stook_private_large_resize(object, size, from);
    if (moved)
        return moved;
    if (size > had)
        wanted = size + size / REALLOC_SLACK;
    return realloc_copy(object, had, size, wanted, from);
}

/* Neither is 0.  NULL with errno, and the object stays as it was. */
static void *realloc_object(void *object, size_t size, const void *from)
{
    size_t had = class_size(object, "realloc");
    void *fresh;

    if (__builtin_expect(had == 0, 0)) { /* no object of ours */
        if (libc_heap_has(object))
            return libc_heap.realloc(object, size);
        errno = EINVAL; /* the program goes on */
        return NULL;
    }
    if (__builtin_expect(boot_size(object) != 0, 0))
        return realloc_copy(object, had, size, size, from);
    if (had > SIZES_MAX || size > SIZES_MAX) {
        if (had > SIZES_MAX && size > SIZES_MAX)
            return realloc_large(object, had, size, from);
    } else if (size <= had && (had - size <= had / REALLOC_SLACK || had <= 2 * SIZES_STEP ||
                               sizes_class(size) == sizes_class(had))) {
        if (__builtin_expect(fast_is_closed(), 0))
            stook_private_resized(object, size);
        return object;
    }
    fresh = realloc_copy(object, had, size, size, from);
    /* What shrinks need not move. */
    return fresh || size > had ? fresh : object;
}

void *MALLOC_NAME(realloc)(void *object, size_t size)
{
    if (!object)
        return MALLOC_NAME(malloc)(size);
    if (size == 0) {
        MALLOC_NAME(free)(object);
        return NULL;
    }
    return realloc_object(object, size, CLASS_FROM);
}
MALLOC_ALSO(realloc, __libc_realloc)

void *MALLOC_NAME(reallocarray)(void *object, size_t count, size_t size)
{
    if (__builtin_mul_overflow(count, size, &size)) {
        errno = ENOMEM;
        return NULL;
    }
    return MALLOC_NAME(realloc)(object, size);
}
