/* SPDX-License-Identifier: MIT */
/*
 * tokens.c - the C calls that clang's AllocToken makes: see tokens.h.  Those with the token in their name are
 * in tokens_named.c.
 */
#include "malloc/tokens.h"

#include "malloc/realloc.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/auxv.h>

#ifndef STOOK_MALLOC_PREFIX

static inline __attribute__((always_inline)) void *tokens_malloc(size_t size, const void *from)
{
    void *object;

    return fast_alloc(size, &object) ? object : class_alloc(size, from);
}

static void *tokens_calloc(size_t count, size_t size, const void *from)
{
    bool zeroed = false;
    void *object;

    if (__builtin_mul_overflow(count, size, &size)) {
        errno = ENOMEM;
        return NULL;
    }
    if (!fast_alloc(size, &object))
        object = class_alloc_zeroed(size, &zeroed, from);
    return object && !zeroed ? memset(object, 0, size) : object;
}

static void *tokens_realloc(void *object, size_t size, const void *from)
{
    if (!object)
        return tokens_malloc(size, from);
    if (size == 0) {
        free(object);
        return NULL;
    }
    return realloc_object(object, size, from);
}

static void *tokens_reallocarray(void *object, size_t count, size_t size, const void *from)
{
    if (__builtin_mul_overflow(count, size, &size)) {
        errno = ENOMEM;
        return NULL;
    }
    return tokens_realloc(object, size, from);
}

/* NULL with errno EINVAL unless `align` is a power of two. */
static void *tokens_aligned(size_t align, size_t size, const void *from)
{
    if (align == 0 || (align & (align - 1)) != 0 || size > PTRDIFF_MAX || align > PTRDIFF_MAX) {
        errno = align == 0 || (align & (align - 1)) != 0 ? EINVAL : ENOMEM;
        return NULL;
    }
    return align > SIZES_STEP ? class_alloc_aligned(align, size, from) : tokens_malloc(size, from);
}

static int tokens_posix(void **result, size_t align, size_t size, const void *from)
{
    int saved = errno;
    void *object;

    if (align % sizeof(void *) != 0 || align == 0 || (align & (align - 1)) != 0)
        return EINVAL;
    object = tokens_aligned(align, size, from);
    if (!object)
        return ENOMEM;
    errno = saved;
    *result = object;
    return 0;
}

static void *tokens_pages(size_t size, bool whole, const void *from)
{
    size_t page = getauxval(AT_PAGESZ);

    if (whole && __builtin_add_overflow(size, page - 1, &size)) {
        errno = ENOMEM;
        return NULL;
    }
    return tokens_aligned(page, whole ? size & -page : size, from);
}

TOKENS_CALL(void *, tokens_named_malloc, "malloc", size_t size, size_t token)
{
    return tokens_malloc(size, TOKENS_FROM(token));
}

TOKENS_CALL(void *, tokens_named_calloc, "calloc", size_t count, size_t size, size_t token)
{
    return tokens_calloc(count, size, TOKENS_FROM(token));
}

TOKENS_CALL(void *, tokens_named_realloc, "realloc", void *object, size_t size, size_t token)
{
    return tokens_realloc(object, size, TOKENS_FROM(token));
}

TOKENS_CALL(void *, tokens_named_reallocarray, "reallocarray", void *object, size_t count,
            size_t size, size_t token)
{
    return tokens_reallocarray(object, count, size, TOKENS_FROM(token));
}

TOKENS_CALL(void *, tokens_named_aligned_alloc, "aligned_alloc", size_t align, size_t size,
            size_t token)
{
    return tokens_aligned(align, size, TOKENS_FROM(token));
}

TOKENS_CALL(void *, tokens_named_memalign, "memalign", size_t align, size_t size, size_t token)
{
    return tokens_aligned(align, size, TOKENS_FROM(token));
}

TOKENS_CALL(int, tokens_named_posix_memalign, "posix_memalign", void **result, size_t align,
            size_t size, size_t token)
{
    return tokens_posix(result, align, size, TOKENS_FROM(token));
}

TOKENS_CALL(void *, tokens_named_valloc, "valloc", size_t size, size_t token)
{
    return tokens_pages(size, false, TOKENS_FROM(token));
}

TOKENS_CALL(void *, tokens_named_pvalloc, "pvalloc", size_t size, size_t token)
{
    return tokens_pages(size, true, TOKENS_FROM(token));
}

#else
typedef int tokens_none; /* a file may not be empty */
#endif
