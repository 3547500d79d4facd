/* SPDX-License-Identifier: MIT */
/* Debian's libmimalloc (2.x), as a replacement of malloc. */
#include <stdlib.h>

#define MALLOC_ALLOC malloc
#define MALLOC_FREE free
#include "malloc_calls.h"

int mi_version(void);
_Bool mi_is_in_heap_region(const void *p);

static inline void adapter_check(void)
{
    void *object = malloc(64);
    if (mi_version() < 200 || mi_version() >= 300 || !mi_is_in_heap_region(object))
        case_die("malloc is not mimalloc 2.x");
    free(object);
}
