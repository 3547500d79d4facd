/* SPDX-License-Identifier: MIT */
/*
 * The malloc family over the C functions of an allocator that was built from its crate, as a library to
 * preload.
 */
#include <errno.h>
#include <stddef.h>
#include <stdint.h>

#include "names.h"

void *PEER(malloc)(size_t size);
void *PEER(calloc)(size_t n, size_t size);
void *PEER(realloc)(void *object, size_t size);
void PEER(free)(void *object);
void *PEER(memalign)(size_t align, size_t size);
int PEER(posix_memalign)(void **object, size_t align, size_t size);
void *PEER(aligned_alloc)(size_t align, size_t size);
size_t PEER_USABLE(void *object);

void *malloc(size_t size)
{
    return PEER(malloc)(size);
}

void *calloc(size_t n, size_t size)
{
    return PEER(calloc)(n, size);
}

void *realloc(void *object, size_t size)
{
    return PEER(realloc)(object, size);
}

void *reallocarray(void *object, size_t n, size_t size)
{
    size_t bytes;

    if (__builtin_mul_overflow(n, size, &bytes)) {
        errno = ENOMEM;
        return NULL;
    }
    return PEER(realloc)(object, bytes);
}

void free(void *object)
{
    PEER(free)(object);
}

void *memalign(size_t align, size_t size)
{
    return PEER(memalign)(align, size);
}

int posix_memalign(void **object, size_t align, size_t size)
{
    return PEER(posix_memalign)(object, align, size);
}

void *aligned_alloc(size_t align, size_t size)
{
    return PEER(aligned_alloc)(align, size);
}

void *valloc(size_t size)
{
    return PEER(memalign)(4096, size);
}

void *pvalloc(size_t size)
{
    return PEER(memalign)(4096, (size + 4095) & ~(size_t)4095);
}

size_t malloc_usable_size(void *object)
{
    return PEER_USABLE(object);
}
