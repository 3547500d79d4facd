/* SPDX-License-Identifier: MIT */
/*
 * An adapter over a malloc. The including header defines MALLOC_ALLOC and MALLOC_FREE, the names
 * that are called, and adapter_check().
 */
#ifndef STOOK_BENCH_MALLOC_CALLS_H
#define STOOK_BENCH_MALLOC_CALLS_H

#include <stddef.h>

#define ADAPTER_ANY_SIZE 1

typedef size_t adapter_t;

static inline adapter_t adapter_open(size_t object_size)
{
    return object_size;
}

static inline void *adapter_alloc(adapter_t size)
{
    return MALLOC_ALLOC(size);
}

static inline void adapter_free(adapter_t size, void *object)
{
    (void)size;
    MALLOC_FREE(object);
}

static inline void *adapter_alloc_size(size_t size)
{
    return MALLOC_ALLOC(size);
}

static inline void adapter_free_any(void *object)
{
    MALLOC_FREE(object);
}

#endif
