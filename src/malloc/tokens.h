/* SPDX-License-Identifier: MIT */
/*
 * tokens.h - the names of clang's AllocToken ABI (-fsanitize=alloc-token): __alloc_token_malloc(size, token), and
 * with -fsanitize-alloc-token-fast-abi __alloc_token_3_malloc(size); of operator new __alloc_token__Znwm and
 * __alloc_token_3__Znwm.  A token is a number that the compiler derives from the type that is allocated.
 *
 * With STOOK_HARDEN=tokens it chooses the partition; else these calls are malloc and its like.
 */
#ifndef STOOK_MALLOC_TOKENS_H
#define STOOK_MALLOC_TOKENS_H

#include "kmalloc/private.h"
#include "malloc/class.h"
#include "malloc/fast.h"
#include "malloc/names.h"

#define TOKENS_FROM(token) stook_private_from_token(CLASS_FROM, token)

/* A function under the name that the compiler calls. */
#define TOKENS_CALL(type, name, symbol, ...)                                                       \
    MALLOC_API type name(__VA_ARGS__) __asm__("__alloc_token_" symbol);                            \
    type name(__VA_ARGS__)

#endif
