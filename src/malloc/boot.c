/* SPDX-License-Identifier: MIT */
/*
 * boot.c - objects within the start, one behind the other.  Only the thread that starts malloc takes some, so no lock.
 */
#include "malloc/boot.h"

#include "base/placed.h"

#include <errno.h>
#include <stdint.h>

enum { BOOT_STEP = 16, BOOT_BYTES = 256 << 10 };

/* The size of each object stands before it.  A process whose start is not come back to touches no page of this. */
static char boot_area[BOOT_BYTES] __attribute__((aligned(BOOT_STEP))) LARGE_BSS;
static size_t boot_used;

__attribute__((cold)) void *boot_alloc(size_t align, size_t size)
{
    uintptr_t free = (uintptr_t)boot_area + boot_used + BOOT_STEP;
    size_t at;

    if (align < BOOT_STEP)
        align = BOOT_STEP;
    at = ((free + align - 1) & -align) - (uintptr_t)boot_area;
    if (align > BOOT_BYTES || at > BOOT_BYTES - BOOT_STEP || size > BOOT_BYTES - BOOT_STEP - at) {
        errno = ENOMEM;
        return NULL;
    }
    size = (size + BOOT_STEP - (size > 0)) & -(size_t)BOOT_STEP;
    *(size_t *)(void *)(boot_area + at - BOOT_STEP) = size;
    boot_used = at + size;
    return boot_area + at;
}

size_t boot_size(const void *object)
{
    uintptr_t at = (uintptr_t)object - (uintptr_t)boot_area;

    return at >= BOOT_STEP && at < boot_used
               ? *(const size_t *)(const void *)(boot_area + at - BOOT_STEP)
               : 0;
}
