/* SPDX-License-Identifier: MIT */
/*
 * libc_heap.h - the heap of glibc's own malloc, which a process has beside ours if a library was opened with
 * RTLD_DEEPBIND or a program found malloc in libc by its handle.
 *
 * Code that calls us may free the objects of such code, as glibc has one malloc.  While that heap is in use, a
 * pointer that is none of ours goes to the calls of glibc, which check it as they would have.  If it is not in use, such
 * a pointer is wrong and is reported, unless the program is linked with another malloc, which gets it then.
 */
#ifndef STOOK_MALLOC_LIBC_HEAP_H
#define STOOK_MALLOC_LIBC_HEAP_H

#include <stdbool.h>
#include <stddef.h>

/* glibc's, not ours; or those of a malloc that the program is linked with, which may have calls of its own for objects
 * (jemalloc's mallocx(), of which redis 8 asks malloc_usable_size()). */
struct libc_heap {
    void (*free)(void *object);
    void *(*realloc)(void *object, size_t size);
    size_t (*usable_size)(void *object);
    bool other; /* not glibc's: its heap may be in use at any time */
};
extern struct libc_heap libc_heap __attribute__((visibility("hidden")));

/*
 * Finds the calls.  libc_heap_has() does it where it needs them; by dlsym(), which waits for another thread's dlopen() and
 * forgets what dlerror() would say.  So a dlopen() of ours does it before.
 */
void libc_heap_find(void);

/* Whether a pointer is for the calls above, which are there then.  For pointers that were not found among ours: slow. */
bool libc_heap_has(const void *pointer);

#endif
