/* SPDX-License-Identifier: MIT */
/*
 * tokens_new.c - operator new as clang's AllocToken calls it: see tokens.h.  Short of memory they leave the rest, a
 * handler and an exception, to the plain form.
 */
#include "malloc/tokens.h"

#ifndef STOOK_MALLOC_PREFIX

static inline __attribute__((always_inline)) void *tokens_new_try(size_t align, size_t size,
                                                                  const void *from)
{
    void *object;

    if ((align & (align - 1)) != 0)
        return NULL;
    if (align > SIZES_STEP)
        return class_alloc_aligned(align, size, from);
    return fast_alloc(size, &object) ? object : class_alloc(size, from);
}

/* The plain forms: malloc/operators.c's, or the C++ library's. */
#define TOKENS_NEW_PLAIN(array, letters)                                                           \
    extern void *tokens_new_plain##array(size_t) __asm__("_Z" letters "m");                        \
    extern void *tokens_new_nothrow##array(size_t,                                                 \
                                           const void *) __asm__("_Z" letters "mRKSt9nothrow_t");  \
    extern void *tokens_new_aligned##array(size_t,                                                 \
                                           size_t) __asm__("_Z" letters "mSt11align_val_t");       \
    extern void *tokens_new_aligned_nothrow##array(size_t, size_t, const void *) __asm__(          \
        "_Z" letters "mSt11align_val_tRKSt9nothrow_t");
TOKENS_NEW_PLAIN(, "nw")
TOKENS_NEW_PLAIN(_array, "na")

#define TOKENS_NEW_FROM(token, call) stook_private_from(TOKENS_FROM(token), STOOK_PRIVATE_##call)

#define TOKENS_NEW(tag, array, letters, prefix, token, call, ...)                                  \
    TOKENS_CALL(void *, tokens_new##array##_##tag, prefix "_Z" letters "m",                        \
                size_t size __VA_ARGS__)                                                           \
    {                                                                                              \
        void *object = tokens_new_try(1, size, TOKENS_NEW_FROM(token, call));                      \
        return object ? object : tokens_new_plain##array(size);                                    \
    }                                                                                              \
    TOKENS_CALL(void *, tokens_new_nothrow##array##_##tag, prefix "_Z" letters "mRKSt9nothrow_t",  \
                size_t size, const void *nothrow __VA_ARGS__)                                      \
    {                                                                                              \
        void *object = tokens_new_try(1, size, TOKENS_NEW_FROM(token, call));                      \
        return object ? object : tokens_new_nothrow##array(size, nothrow);                         \
    }                                                                                              \
    TOKENS_CALL(void *, tokens_new_aligned##array##_##tag, prefix "_Z" letters "mSt11align_val_t", \
                size_t size, size_t align __VA_ARGS__)                                             \
    {                                                                                              \
        void *object = tokens_new_try(align, size, TOKENS_NEW_FROM(token, call));                  \
        return object ? object : tokens_new_aligned##array(size, align);                           \
    }                                                                                              \
    TOKENS_CALL(void *, tokens_new_aligned_nothrow##array##_##tag,                                 \
                prefix "_Z" letters "mSt11align_val_tRKSt9nothrow_t", size_t size, size_t align,   \
                const void *nothrow __VA_ARGS__)                                                   \
    {                                                                                              \
        void *object = tokens_new_try(align, size, TOKENS_NEW_FROM(token, call));                  \
        return object ? object : tokens_new_aligned_nothrow##array(size, align, nothrow);          \
    }
#define TOKENS_NEW_ONE(n)                                                                          \
    TOKENS_NEW(n, , "nw", "__alloc_token_" #n "_", n, NEW)                                         \
    TOKENS_NEW(n, _array, "na", "__alloc_token_" #n "_", n, NEW_ARRAY)
TOKENS_NEW(any, , "nw", "__alloc_token_", token, NEW, , size_t token)
TOKENS_NEW(any, _array, "na", "__alloc_token_", token, NEW_ARRAY, , size_t token)
TOKENS_EACH(TOKENS_NEW_ONE)

#else
typedef int tokens_new_none; /* a file may not be empty */
#endif
