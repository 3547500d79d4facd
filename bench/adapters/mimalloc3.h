/* SPDX-License-Identifier: MIT */
/* mimalloc 3.x, from the crate libmimalloc-sys. */
#include <stddef.h>

void *mi_malloc(size_t size);
void mi_free(void *object);
int mi_version(void);

#define MALLOC_ALLOC mi_malloc
#define MALLOC_FREE mi_free
#include "malloc_calls.h"

/* Versions are written 302 or 30302, by age. */
static inline void adapter_check(void)
{
    int version = mi_version();
    if (version >= 10000)
        version /= 100;
    if (version / 100 != 3)
        case_die("mimalloc is not 3.x");
}
