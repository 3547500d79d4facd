/* SPDX-License-Identifier: MIT */
/*
 * tokens.c - the C calls that clang's AllocToken makes: see tokens.h.  The ABI that names the token in the symbol
 * has no calls of other tokens than those of the partitions: -falloc-token-max=16 at most.
 */
#include "malloc/tokens.h"

#include "malloc/realloc.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

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
    errno = saved;
    if (!object)
        return ENOMEM;
    *result = object;
    return 0;
}

static void *tokens_pages(size_t size, bool whole, const void *from)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);

    if (whole && __builtin_add_overflow(size, page - 1, &size)) {
        errno = ENOMEM;
        return NULL;
    }
    return tokens_aligned(page, whole ? size & -page : size, from);
}

/* `prefix` is what stands before the name, `more` a last parameter, `token` what it says. */
#define TOKENS_FAMILY(tag, prefix, token, ...)                                                     \
    TOKENS_CALL(void *, tokens_malloc_##tag, prefix "malloc", size_t size __VA_ARGS__)             \
    {                                                                                              \
        return tokens_malloc(size, TOKENS_FROM(token));                                            \
    }                                                                                              \
    TOKENS_CALL(void *, tokens_calloc_##tag, prefix "calloc", size_t n, size_t size __VA_ARGS__)   \
    {                                                                                              \
        return tokens_calloc(n, size, TOKENS_FROM(token));                                         \
    }                                                                                              \
    TOKENS_CALL(void *, tokens_realloc_##tag, prefix "realloc", void *object,                      \
                size_t size __VA_ARGS__)                                                           \
    {                                                                                              \
        return tokens_realloc(object, size, TOKENS_FROM(token));                                   \
    }                                                                                              \
    TOKENS_CALL(void *, tokens_reallocarray_##tag, prefix "reallocarray", void *object, size_t n,  \
                size_t size __VA_ARGS__)                                                           \
    {                                                                                              \
        return tokens_reallocarray(object, n, size, TOKENS_FROM(token));                           \
    }                                                                                              \
    TOKENS_CALL(void *, tokens_aligned_alloc_##tag, prefix "aligned_alloc", size_t align,          \
                size_t size __VA_ARGS__)                                                           \
    {                                                                                              \
        return tokens_aligned(align, size, TOKENS_FROM(token));                                    \
    }                                                                                              \
    TOKENS_CALL(void *, tokens_memalign_##tag, prefix "memalign", size_t align,                    \
                size_t size __VA_ARGS__)                                                           \
    {                                                                                              \
        return tokens_aligned(align, size, TOKENS_FROM(token));                                    \
    }                                                                                              \
    TOKENS_CALL(int, tokens_posix_memalign_##tag, prefix "posix_memalign", void **result,          \
                size_t align, size_t size __VA_ARGS__)                                             \
    {                                                                                              \
        return tokens_posix(result, align, size, TOKENS_FROM(token));                              \
    }                                                                                              \
    TOKENS_CALL(void *, tokens_valloc_##tag, prefix "valloc", size_t size __VA_ARGS__)             \
    {                                                                                              \
        return tokens_pages(size, false, TOKENS_FROM(token));                                      \
    }                                                                                              \
    TOKENS_CALL(void *, tokens_pvalloc_##tag, prefix "pvalloc", size_t size __VA_ARGS__)           \
    {                                                                                              \
        return tokens_pages(size, true, TOKENS_FROM(token));                                       \
    }

#define TOKENS_ONE(n) TOKENS_FAMILY(n, "__alloc_token_" #n "_", n)
TOKENS_FAMILY(any, "__alloc_token_", token, , size_t token)
TOKENS_EACH(TOKENS_ONE)

#else
typedef int tokens_none; /* a file may not be empty */
#endif
