/* SPDX-License-Identifier: MIT */
/*
 * large.h - objects of whole pages: runs within a block, spans of blocks above.
 *
 * A large object begins at a page, and has no descriptor but its length (begin.h).  Pages that a
 * program does not touch cost nothing.
 */
#ifndef STOOK_LARGE_LARGE_H
#define STOOK_LARGE_LARGE_H

#include "os/topology.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* At least `size` bytes at a multiple of `align` (a power of two); NULL with errno ENOMEM. */
void *large_alloc(unsigned zone, size_t size, size_t align, bool nospin, bool *zeroed);

/* The same of what is kept (kept.h) for this CPU's home node, in any context; NULL: nothing fits. */
void *large_again(size_t size, size_t align);
/*
 * The same of this CPU's home node if it has some, then of the others; of each node, of its other zone
 * where address space is limited.  Beside a fork, which may have the locks of all zones, it is outside of them.
 */
void *large_alloc_any(size_t size, size_t align, bool nospin, bool *zeroed);

/* Bytes that it holds, which are charged: of a span that ends in pages without access more than it may use. */
size_t large_bytes(const void *object);
/* Usable bytes of the large object that begins at `object`; 0: none does.  Any pointer. */
size_t large_size(const void *object);

/* Gives a large object back, which is not accounted, or no longer; any context.  False: no large object. */
bool large_free(void *object);

/* Makes it at least `size` bytes (not 0) without moving it, or gives its tail back; false: no. */
bool large_resize(void *object, size_t size);

/* Moves its pages, unread, to a new object of at least `size` bytes; NULL: copy instead. */
void *large_move(unsigned zone, void *object, size_t size);

/* The note of a large object by the layer that allocates it: zeros at first; NULL: none begins at `object`.  Only
 * the thread that has the object in hand reads or writes it. */
struct large_note {
    uint32_t owner, tag;
};
const struct large_note *large_note(const void *object);
/* Something was said of one once: before, no free needs to look. */
extern _Atomic bool large_noted __attribute__((visibility("hidden")));
/* False: not now (arena_set_note()), and never of an object of which something was said already. */
bool large_set_note(void *object, struct large_note note);

/*
 * Objects below, pages above: each row (percpu/rows.h) has what was counted there, and may be negative in both;
 * their sum is not.
 */
enum { LARGE_ROWS = TOPOLOGY_CPUS_MAX + 1, LARGE_OBJECT_BITS = 28 };

struct large_row {
    uint64_t count;
} __attribute__((aligned(64)));
extern struct large_row large_row[LARGE_ROWS] __attribute__((visibility("hidden")));

/* The large objects alive and the bytes of their pages: racy sums. */
void large_count(uint64_t *objects, uint64_t *bytes);

#endif
