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

#define TOKENS_NEW(array, letters, call)                                                           \
    TOKENS_CALL(void *, tokens_new##array, "_Z" letters "m", size_t size, size_t token)            \
    {                                                                                              \
        void *object = tokens_new_try(1, size, TOKENS_NEW_FROM(token, call));                      \
        return object ? object : tokens_new_plain##array(size);                                    \
    }                                                                                              \
    TOKENS_CALL(void *, tokens_new_quiet##array, "_Z" letters "mRKSt9nothrow_t", size_t size,      \
                const void *nothrow, size_t token)                                                 \
    {                                                                                              \
        void *object = tokens_new_try(1, size, TOKENS_NEW_FROM(token, call));                      \
        return object ? object : tokens_new_nothrow##array(size, nothrow);                         \
    }                                                                                              \
    TOKENS_CALL(void *, tokens_new_at##array, "_Z" letters "mSt11align_val_t", size_t size,        \
                size_t align, size_t token)                                                        \
    {                                                                                              \
        void *object = tokens_new_try(align, size, TOKENS_NEW_FROM(token, call));                  \
        return object ? object : tokens_new_aligned##array(size, align);                           \
    }                                                                                              \
    TOKENS_CALL(void *, tokens_new_quiet_at##array, "_Z" letters "mSt11align_val_tRKSt9nothrow_t", \
                size_t size, size_t align, const void *nothrow, size_t token)                      \
    {                                                                                              \
        void *object = tokens_new_try(align, size, TOKENS_NEW_FROM(token, call));                  \
        return object ? object : tokens_new_aligned_nothrow##array(size, align, nothrow);          \
    }
TOKENS_NEW(, "nw", NEW)
TOKENS_NEW(_array, "na", NEW_ARRAY)

#else
typedef int tokens_new_none; /* a file may not be empty */
#endif
