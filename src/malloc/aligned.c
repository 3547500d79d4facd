/* SPDX-License-Identifier: MIT */
/*
 * aligned.c - memory at a multiple of a given alignment.
 */
#include "malloc/class.h"
#include "malloc/fast.h"
#include "malloc/names.h"

#include <errno.h>
#include <stdint.h>
#include <sys/auxv.h>

static bool aligned_power(size_t align)
{
    return align != 0 && (align & (align - 1)) == 0;
}

/* NULL with errno EINVAL unless `align` is a power of two. */
static void *aligned_object(size_t align, size_t size, const void *from)
{
    void *object;

    if (!aligned_power(align) || size > PTRDIFF_MAX || align > PTRDIFF_MAX) {
        errno = aligned_power(align) ? ENOMEM : EINVAL;
        return NULL;
    }
    if (align > SIZES_STEP)
        return class_alloc_aligned(align, size, from);
    return fast_alloc(FAST_OPEN, size, &object) ? object : class_alloc(size, NULL, from);
}

/* What is no power of two is rounded up to one, as glibc does. */
void *MALLOC_NAME(memalign)(size_t align, size_t size)
{
    if (align <= SIZES_STEP)
        align = 1;
    else if (align - 1 < PTRDIFF_MAX)
        align = (size_t)1 << (64 - __builtin_clzll(align - 1));
    return aligned_object(align, size, CLASS_FROM);
}
MALLOC_ALSO(memalign, __libc_memalign)

/* `size` need be no multiple of `align`. */
void *MALLOC_NAME(aligned_alloc)(size_t align, size_t size)
{
    return aligned_object(align, size, CLASS_FROM);
}

int MALLOC_NAME(posix_memalign)(void **result, size_t align, size_t size)
{
    int saved = errno;
    void *object;

    if (!aligned_power(align) || align % sizeof(void *) != 0)
        return EINVAL;
    object = aligned_object(align, size, CLASS_FROM);
    if (!object)
        return ENOMEM; /* as is errno, like glibc's */
    errno = saved;
    *result = object;
    return 0;
}

void *MALLOC_NAME(valloc)(size_t size)
{
    return aligned_object(getauxval(AT_PAGESZ), size, CLASS_FROM);
}
MALLOC_ALSO(valloc, __libc_valloc)

void *MALLOC_NAME(pvalloc)(size_t size)
{
    size_t page = getauxval(AT_PAGESZ); /* the kernel's, not the arena's */

    if (__builtin_add_overflow(size, page - 1, &size)) {
        errno = ENOMEM;
        return NULL;
    }
    return aligned_object(page, size & -page, CLASS_FROM);
}
MALLOC_ALSO(pvalloc, __libc_pvalloc)
