/* SPDX-License-Identifier: MIT */
/*
 * grow.h - public structures that grow: their first member is `size`, the caller's sizeof
 * (docs/decisions/0029-the-public-interface.md).
 */
#ifndef STOOK_BASE_GROW_H
#define STOOK_BASE_GROW_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

enum { GROW_MAX = 4096 }; /* bytes: more than any version's structure will have */

/* Whether `size` can be the sizeof of such a structure.  They are aligned to a word, so a size that ends inside
 * of one is none: half a pointer would be copied. */
static inline bool grow_is_sized(size_t size)
{
    return size >= sizeof(size_t) && size % sizeof(size_t) == 0 && size <= GROW_MAX;
}

/* Arguments, of which `known` bytes are known: members that the caller does not have are 0.  False if its
 * size is no structure's, or something is set that is not known. */
static inline bool grow_read(void *to, size_t known, const void *from)
{
    size_t size;

    memcpy(&size, from, sizeof(size));
    if (!grow_is_sized(size))
        return false;
    for (size_t i = known; i < size; i++)
        if (((const char *)from)[i] != 0)
            return false;
    memset(to, 0, known);
    memcpy(to, from, size < known ? size : known);
    return true;
}

/* A result, of which `known` bytes are known; the caller's `size` stays. */
static inline void grow_write(void *to, const void *from, size_t known)
{
    size_t size;

    memcpy(&size, to, sizeof(size));
    memcpy((char *)to + sizeof(size), (const char *)from + sizeof(size),
           (size < known ? size : known) - sizeof(size));
    if (size > known)
        memset((char *)to + known, 0, size - known);
}

#endif
