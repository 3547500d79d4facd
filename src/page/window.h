/* SPDX-License-Identifier: MIT */
/*
 * window.h - the window of address space that all blocks lie in, and what of it is taken.
 *
 * A window has room for blocks, their metadata and headers, the page map, and a word a block with the
 * block's zone.  Each lies at a fixed distance, so lookups are arithmetic.  It begins at an address chosen at
 * random for each process, where neither the kernel nor the loader puts anything by itself.
 * It is not reserved: memory is mapped in steps as it is needed, and the process's virtual size
 * is the size that it uses.  From a place within it blocks of objects grow up, blocks of the library's own
 * objects down.  A place where something else is mapped already is skipped.
 *
 * Where no window can be had (sanitizers, emulators, narrow machines) a smaller range is reserved
 * without access, and the steps are taken within it; nothing above knows the difference.
 *
 * Locking: LOCK_WINDOW, taken while a zone's lock is held.
 */
#ifndef STOOK_PAGE_WINDOW_H
#define STOOK_PAGE_WINDOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Finds a window for `size` bytes of blocks, or a smaller one; false: there is no address space. */
bool window_init(size_t size);
/* Undoes it, while no block was ever taken. */
void window_exit(void);

/* What a zone asks for.  [next, end) are blocks of its that lie unused; next == end: none. */
struct window_ask {
    uint32_t next, end;
    uint32_t need;  /* blocks in a row */
    uint32_t align; /* the first of these at a multiple of so many blocks */
    uint32_t want;  /* blocks to take if there is room */
};

/*
 * Takes blocks, with their part of the page map but without metadata, for a zone: all or nothing.
 * True: *first and *count; together with what was unused just before them they hold what is needed.
 */
bool window_take(unsigned zone, const struct window_ask *ask, uint32_t *first, uint32_t *count);

/*
 * Maps blocks of a zone's, or their metadata: 0, or as os_take() says, and then nothing is mapped.  And unmaps them; false: the
 * kernel refused, and they are mapped as before.  Without the window's lock: the blocks are the caller's.
 */
int window_map(void *address, size_t size);
bool window_unmap(void *address, size_t size);

/* Bytes mapped now, of blocks, of metadata and of the page map. */
size_t window_mapped(void);

/*
 * hooks_set.malloc.  Learns how many bytes from pagemap.middle on may hold objects, at once and whenever these grow;
 * under the window's lock.
 */
void window_on_growing(void (*fn)(unsigned what, size_t value));

/* fork */
void window_lock(void);
void window_unlock(void);
void window_child(void);

#endif
