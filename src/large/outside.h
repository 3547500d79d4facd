/* SPDX-License-Identifier: MIT */
/*
 * outside.h - large objects that are mappings of their own, outside of the window.
 *
 * For threads that find a fork with the locks of all zones, and nothing left of what it set aside: to map
 * memory takes no lock.  A table of atomic words has the addresses, so a child finds each object whole or
 * not at all.  Objects are searched for there only while there are some, and only by addresses that are
 * not the window's.  A fork that gets no CPU may last for many allocations: the table has about as many
 * entries as the kernel allows mappings, and from OUTSIDE_MANY on each allocation sleeps a moment first.
 */
#ifndef STOOK_LARGE_OUTSIDE_H
#define STOOK_LARGE_OUTSIDE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { OUTSIDE_MANY = 512, OUTSIDE_MAX = 65536 };

/* In the page before an object. */
struct outside {
    void *map;
    size_t mapped, bytes; /* of these the object's */
    uint32_t note[2];     /* struct large_note */
};

/* Zeroed, at a multiple of `align` (a power of two); NULL with errno ENOMEM. */
void *outside_alloc(size_t size, size_t align);
/* NULL: no such object begins here.  Any pointer. */
struct outside *outside_of(const void *object);
/* Its bytes; 0: another thread frees it. */
size_t outside_free(void *object);

#endif
