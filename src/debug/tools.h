/* SPDX-License-Identifier: MIT */
/*
 * tools.h - tells AddressSanitizer and Valgrind which bytes belong to live objects, so that they report an access to any
 * other byte at the instruction that makes it.
 *
 * If one of the two watches the process, all caches are debug caches with F and Z: each call enters the library, no
 * sheaf keeps an object, and no link lies in one.  The bytes around a live object, and all bytes of a free one, are
 * closed to the program.  The library opens them while it checks and writes them.
 *
 *   AddressSanitizer   found by weak references to its runtime, which the program has; the library is not
 *                      compiled with it.  Slabs are roots of its own search for leaks.
 *   Valgrind           by requests that do nothing elsewhere, if its header was there when the library was built.
 *                      Objects are blocks like malloc's, with their stacks.  They are no pools of Valgrind's: it
 *                      counts leaks of pools only in programs that have blocks of malloc.
 */
#ifndef STOOK_DEBUG_TOOLS_H
#define STOOK_DEBUG_TOOLS_H

#include "slab/slab.h"

#include <stdbool.h>

enum tools { TOOLS_NONE, TOOLS_ASAN = 1, TOOLS_VALGRIND = 2 };

/* Which tool watches this process.  Set once, before the first cache. */
extern uint8_t tools_watch __attribute__((visibility("hidden")));
void tools_start(void);
/* Then: the library adds to the tool's reports (tools_report.c). */
void tools_report_start(void);

/* The rest does nothing unless a tool watches.  First: the library may use the bytes; no code may. */
void tools_open(const void *from, size_t n);
void tools_close(const void *from, size_t n);

/* A slab's pages are closed; and are as any others again. */
void tools_slab_made(const struct stook_cache *cache, struct slab *slab, size_t bytes);
void tools_slab_gone(struct slab *slab, size_t bytes);

/* Of an object `size` bytes are the user's from now on; `had` were; none is any more. */
void tools_alloc(const struct stook_cache *cache, const void *object, size_t size);
void tools_resize(const struct stook_cache *cache, const void *object, size_t had, size_t size);
void tools_free(const struct stook_cache *cache, const void *object);

/* A large object is used for `size` bytes of its pages, was for `had`, 0: is a new one; and all of it is closed, freed. */
void tools_pages(const void *object, size_t had, size_t size, size_t large);
void tools_pages_gone(const void *object, size_t large);

/* Whether errors of this thread are the program's. */
void tools_quiet(bool quiet);

#endif
