/* SPDX-License-Identifier: MIT */
/* gperftools' tcmalloc (the minimal one, without profilers), as a replacement of malloc. */
#include <stdlib.h>

#define MALLOC_ALLOC malloc
#define MALLOC_FREE free
#include "malloc_calls.h"

int MallocExtension_GetOwnership(const void *p);

static inline void adapter_check(void)
{
    enum { UNKNOWN, OWNED };
    void *object = malloc(64);
    if (MallocExtension_GetOwnership(object) != OWNED)
        case_die("malloc is not tcmalloc");
    free(object);
}
