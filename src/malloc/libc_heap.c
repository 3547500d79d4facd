/* SPDX-License-Identifier: MIT */
/*
 * libc_heap.c - finds the calls of glibc's malloc, and whether its heap is in use.
 */
#include "malloc/libc_heap.h"

#include "kmalloc/private.h"
#include "malloc/names.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdint.h>

struct libc_heap libc_heap;

#if defined(__GLIBC__) && !defined(STOOK_MALLOC_PREFIX)

/* Both are absent in static programs, which have no other malloc.  We define no __libc_mallinfo(): it is glibc's. */
extern void *dlsym(void *handle, const char *name) __attribute__((weak));
extern struct mallinfo __libc_mallinfo(void) __attribute__((weak));

/* free is stored last: other threads ask for it. */
void libc_heap_find(void)
{
    int saved = errno;

    libc_heap.realloc = (void *(*)(void *, size_t))(uintptr_t)dlsym(RTLD_NEXT, "__libc_realloc");
    libc_heap.usable_size = (size_t(*)(void *))(uintptr_t)dlsym(RTLD_NEXT, "malloc_usable_size");
    __atomic_store_n(&libc_heap.free, (void (*)(void *))(uintptr_t)dlsym(RTLD_NEXT, "__libc_free"),
                     __ATOMIC_RELEASE);
    errno = saved;
}

/* Once it has been, objects of it may be anywhere.  To ask is slow: glibc walks its lists of free chunks. */
static bool libc_heap_is_used(void)
{
    static bool used;

    if (!__atomic_load_n(&used, __ATOMIC_RELAXED) && __libc_mallinfo) {
        struct mallinfo info = __libc_mallinfo();
        if (info.arena != 0 || info.hblks != 0)
            __atomic_store_n(&used, true, __ATOMIC_RELAXED);
    }
    return __atomic_load_n(&used, __ATOMIC_RELAXED);
}

__attribute__((cold)) bool libc_heap_has(const void *pointer)
{
    if (!stook_private_is_foreign(pointer) || !libc_heap_is_used())
        return false;
    if (!__atomic_load_n(&libc_heap.free, __ATOMIC_ACQUIRE) && dlsym)
        libc_heap_find();
    return libc_heap.free && libc_heap.realloc && libc_heap.usable_size;
}

#else

bool libc_heap_has(const void *pointer)
{
    (void)pointer;
    return false;
}

#endif
