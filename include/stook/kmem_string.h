/* SPDX-License-Identifier: MIT */
/* kmem_string.h - stook/kmem.h's copies of memory and of strings, and formatted strings. */
#ifndef STOOK_KMEM_STRING_H
#define STOOK_KMEM_STRING_H

#include <stook/kmem_kmalloc.h>

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

STOOK_C_BEGIN

/* ---- copies ---------------------------------------------------------------------------------- */

static inline STOOK_SIZED(2) void *kmemdup(const void *from, size_t size, gfp_t gfp)
{
    void *copy = kmalloc(size, gfp & ~__GFP_ZERO);

    if (copy && size > 0 && size <= PTRDIFF_MAX) /* as the compiler does not know */
        memcpy(copy, from, size);
    return copy;
}

static inline STOOK_SIZED(2, 3) void *kmemdup_array(const void *from, size_t n, size_t size,
                                                    gfp_t gfp)
{
    return kmemdup(from, stook_array_bytes(n, size), gfp);
}

static inline STOOK_SIZED(2) void *kvmemdup(const void *from, size_t size, gfp_t gfp)
{
    return kmemdup(from, size, gfp);
}

/* With a NUL behind. */
static inline STOOK_WARN_UNUSED char *kmemdup_nul(const char *from, size_t size, gfp_t gfp)
{
    char *copy = from && size < PTRDIFF_MAX ? (char *)kmalloc(size + 1, gfp & ~__GFP_ZERO) : NULL;

    if (copy) {
        memcpy(copy, from, size);
        copy[size] = '\0';
    }
    return copy;
}

static inline STOOK_WARN_UNUSED char *kstrdup(const char *from, gfp_t gfp)
{
    return from ? kmemdup_nul(from, strlen(from), gfp) : NULL;
}

static inline STOOK_WARN_UNUSED char *kstrndup(const char *from, size_t most, gfp_t gfp)
{
    const char *end = from ? (const char *)memchr(from, 0, most) : NULL;

    return kmemdup_nul(from, end ? (size_t)(end - from) : most, gfp);
}

/* Always a copy: nothing here knows what is constant. */
static inline STOOK_WARN_UNUSED const char *kstrdup_const(const char *from, gfp_t gfp)
{
    return kstrdup(from, gfp);
}

static inline void kfree_const(const void *object)
{
    stook_free_any((void *)(uintptr_t)object);
}

static inline STOOK_WARN_UNUSED __attribute__((format(printf, 2, 0))) char *kvasprintf(
    gfp_t gfp, const char *format, va_list list)
{
    va_list again;
    char *text = NULL;
    int n;

    va_copy(again, list);
    n = vsnprintf(NULL, 0, format, list);
    if (n >= 0)
        text = (char *)kmalloc((size_t)n + 1, gfp);
    if (text)
        (void)vsnprintf(text, (size_t)n + 1, format, again);
    va_end(again);
    return text;
}

/* Always of its own. */
static inline STOOK_WARN_UNUSED __attribute__((format(printf, 2, 0))) const char *kvasprintf_const(
    gfp_t gfp, const char *format, va_list list)
{
    return kvasprintf(gfp, format, list);
}

static inline STOOK_WARN_UNUSED __attribute__((format(printf, 2, 3))) char *kasprintf(
    gfp_t gfp, const char *format, ...)
{
    va_list list;
    char *text;

    va_start(list, format);
    text = kvasprintf(gfp, format, list);
    va_end(list);
    return text;
}

#define kmemdup_noprof kmemdup
#define kmemdup_array_noprof kmemdup_array

STOOK_C_END

#endif /* STOOK_KMEM_STRING_H */
