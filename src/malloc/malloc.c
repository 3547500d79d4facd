/* SPDX-License-Identifier: MIT */
/*
 * malloc.c - malloc, calloc, free, free_sized and free_aligned_sized.
 *
 * Each is the fast path and one tail call into the cold path.
 */
#include "malloc/class.h"
#include "malloc/fast.h"
#include "malloc/names.h"

#include <errno.h>
#include <string.h>

/*
 * In a static program the member of the archive that brings malloc must bring the whole family:
 * libc's would fill the gaps, and bring libc's malloc along.
 */
static const void *const malloc_family[] __attribute__((used)) = {
    (const void *)MALLOC_NAME(realloc),
    (const void *)MALLOC_NAME(memalign),
    (const void *)MALLOC_NAME(malloc_usable_size),
};

/* Aligned: each is two lines of code, not three. */
__attribute__((aligned(64))) void *MALLOC_NAME(malloc)(size_t size)
{
    void *object;

    if (fast_alloc(FAST_OPEN, size, &object))
        return object;
    return class_alloc(size, NULL, CLASS_FROM);
}
MALLOC_ALSO(malloc, __libc_malloc)

static __attribute__((noinline, cold)) void *calloc_slow(size_t size, const void *from)
{
    bool zeroed;
    void *object = class_alloc(size, &zeroed, from);

    return object && !zeroed ? memset(object, 0, size) : object;
}

void *MALLOC_NAME(calloc)(size_t count, size_t size)
{
    void *object;

    if (__builtin_expect(__builtin_mul_overflow(count, size, &size), 0)) {
        errno = ENOMEM;
        return NULL;
    }
    if (fast_alloc(FAST_OPEN, size, &object))
        return memset(object, 0, size);
    return calloc_slow(size, CLASS_FROM);
}
MALLOC_ALSO(calloc, __libc_calloc)

static __attribute__((noinline, cold)) void free_slow(void *object)
{
    class_free_as(object, "free", STOOK_PRIVATE_MALLOC, 0);
}

__attribute__((aligned(64))) void MALLOC_NAME(free)(void *object)
{
    if (fast_free(object))
        return;
    free_slow(object);
}
MALLOC_ALSO(free, __libc_free)
MALLOC_ALSO(free, cfree)

static __attribute__((noinline, cold)) void free_slow_sized(void *object, size_t size)
{
    class_free_as(object, "free_sized", STOOK_PRIVATE_MALLOC, size);
}

/* The page map knows as much as the caller, and cannot be wrong. */
void MALLOC_NAME(free_sized)(void *object, size_t size)
{
    if (fast_free(object))
        return;
    free_slow_sized(object, size);
}

void MALLOC_NAME(free_aligned_sized)(void *object, size_t align, size_t size)
{
    (void)align;
    if (fast_free(object))
        return;
    free_slow_sized(object, size);
}
