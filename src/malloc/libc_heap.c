/* SPDX-License-Identifier: MIT */
/*
 * libc_heap.c - finds the calls of the malloc behind ours, and whether its heap is in use.
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
extern int dladdr(const void *address, Dl_info *info) __attribute__((weak));
extern struct mallinfo __libc_mallinfo(void) __attribute__((weak));

/* Whether a malloc that the program is linked with comes before glibc's. */
static bool libc_heap_is_other(const void *usable_size)
{
    Dl_info next, libc;

    return usable_size && __libc_mallinfo && dladdr && dladdr(usable_size, &next) != 0 &&
           dladdr((const void *)(uintptr_t)__libc_mallinfo, &libc) != 0 &&
           next.dli_fbase != libc.dli_fbase;
}

/* free is stored last: other threads ask for it. */
void libc_heap_find(void)
{
    int saved = errno;
    void *size = dlsym(RTLD_NEXT, "malloc_usable_size");
    bool other = libc_heap_is_other(size);

    libc_heap.other = other;
    libc_heap.usable_size = (size_t(*)(void *))(uintptr_t)size;
    libc_heap.realloc = (void *(*)(void *, size_t))(uintptr_t)dlsym(
        RTLD_NEXT, other ? "realloc" : "__libc_realloc");
    __atomic_store_n(&libc_heap.free,
                     (void (*)(void *))(uintptr_t)dlsym(RTLD_NEXT, other ? "free" : "__libc_free"),
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
    if (!stook_private_is_foreign(pointer))
        return false;
    if (!__atomic_load_n(&libc_heap.free, __ATOMIC_ACQUIRE) && dlsym)
        libc_heap_find();
    return libc_heap.free && libc_heap.realloc && libc_heap.usable_size &&
           (libc_heap.other || libc_heap_is_used());
}

#else

bool libc_heap_has(const void *pointer)
{
    (void)pointer;
    return false;
}

#endif
