/* SPDX-License-Identifier: MIT */
/*
 * tokens_named.c - the calls of clang's AllocToken with -fsanitize-alloc-token-fast-abi, which have the token in their
 * name: __alloc_token_3_malloc(size).  They are the archive libstook-malloc-tokens.a, beside either form of
 * libstook-malloc: 272 names would cost each process that starts on the shared library 80 KiB.
 *
 * There are names for as many tokens as partitions: -falloc-token-max=16 at most.
 */
#include <stddef.h>

/* The call whose last parameter is the token is a jump from here, so that the place is the caller's. */
#define NAMED(type, n, symbol, parameters, ...)                                                    \
    NAMED_(type, named_##n##_##symbol, "__alloc_token_" #n "_" #symbol, __alloc_token_##symbol,    \
           parameters, (__VA_ARGS__, (size_t)n))
#define NAMED_(type, name, symbol, call, parameters, arguments)                                    \
    type name parameters __asm__(symbol);                                                          \
    type name parameters                                                                           \
    {                                                                                              \
        return call arguments;                                                                     \
    }

extern void *__alloc_token_malloc(size_t, size_t);
extern void *__alloc_token_calloc(size_t, size_t, size_t);
extern void *__alloc_token_realloc(void *, size_t, size_t);
extern void *__alloc_token_reallocarray(void *, size_t, size_t, size_t);
extern void *__alloc_token_aligned_alloc(size_t, size_t, size_t);
extern void *__alloc_token_memalign(size_t, size_t, size_t);
extern int __alloc_token_posix_memalign(void **, size_t, size_t, size_t);
extern void *__alloc_token_valloc(size_t, size_t);
extern void *__alloc_token_pvalloc(size_t, size_t);

#define NAMED_C(n)                                                                                 \
    NAMED(void *, n, malloc, (size_t size), size)                                                  \
    NAMED(void *, n, calloc, (size_t count, size_t size), count, size)                             \
    NAMED(void *, n, realloc, (void *object, size_t size), object, size)                           \
    NAMED(void *, n, reallocarray, (void *object, size_t count, size_t size), object, count, size) \
    NAMED(void *, n, aligned_alloc, (size_t align, size_t size), align, size)                      \
    NAMED(void *, n, memalign, (size_t align, size_t size), align, size)                           \
    NAMED(int, n, posix_memalign, (void **result, size_t align, size_t size), result, align, size) \
    NAMED(void *, n, valloc, (size_t size), size)                                                  \
    NAMED(void *, n, pvalloc, (size_t size), size)

/* operator new and new[]: plain, nothrow, aligned, both. */
#define NEW_OF(letters)                                                                            \
    extern void *__alloc_token__Z##letters##m(size_t, size_t);                                     \
    extern void *__alloc_token__Z##letters##mRKSt9nothrow_t(size_t, const void *, size_t);         \
    extern void *__alloc_token__Z##letters##mSt11align_val_t(size_t, size_t, size_t);              \
    extern void *__alloc_token__Z##letters##mSt11align_val_tRKSt9nothrow_t(size_t, size_t,         \
                                                                           const void *, size_t);
NEW_OF(nw)
NEW_OF(na)

#define NAMED_NEW(n, letters)                                                                      \
    NAMED(void *, n, _Z##letters##m, (size_t size), size)                                          \
    NAMED(void *, n, _Z##letters##mRKSt9nothrow_t, (size_t size, const void *nothrow), size,       \
          nothrow)                                                                                 \
    NAMED(void *, n, _Z##letters##mSt11align_val_t, (size_t size, size_t align), size, align)      \
    NAMED(void *, n, _Z##letters##mSt11align_val_tRKSt9nothrow_t,                                  \
          (size_t size, size_t align, const void *nothrow), size, align, nothrow)

#define NAMED_ALL(n) NAMED_C(n) NAMED_NEW(n, nw) NAMED_NEW(n, na)
NAMED_ALL(0)
NAMED_ALL(1)
NAMED_ALL(2)
NAMED_ALL(3)
NAMED_ALL(4)
NAMED_ALL(5)
NAMED_ALL(6)
NAMED_ALL(7)
NAMED_ALL(8)
NAMED_ALL(9)
NAMED_ALL(10)
NAMED_ALL(11)
NAMED_ALL(12)
NAMED_ALL(13)
NAMED_ALL(14)
NAMED_ALL(15)
