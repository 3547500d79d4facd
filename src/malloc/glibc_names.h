/* SPDX-License-Identifier: MIT */
/*
 * glibc_names.h - glibc's part of <malloc.h>, for C libraries without it (musl, an older glibc): programs that declare these names
 * themselves, and glibc's own programs under a layer of compatibility, find the calls there too.  Names, members
 * and numbers are glibc's ABI.
 */
#ifndef STOOK_MALLOC_GLIBC_NAMES_H
#define STOOK_MALLOC_GLIBC_NAMES_H

#include <features.h>
#include <stddef.h>

#if !defined(__GLIBC__) || (__GLIBC__ == 2 && __GLIBC_MINOR__ < 33)
struct mallinfo2 {
    size_t arena, ordblks, smblks, hblks, hblkhd, usmblks, fsmblks, uordblks, fordblks, keepcost;
};
#endif

#ifndef __GLIBC__

struct mallinfo {
    int arena, ordblks, smblks, hblks, hblkhd, usmblks, fsmblks, uordblks, fordblks, keepcost;
};

enum { M_TRIM_THRESHOLD = -1, M_CHECK_ACTION = -5, M_PERTURB = -6, M_ARENA_MAX = -8 };

#endif
#endif
