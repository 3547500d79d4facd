/* SPDX-License-Identifier: MIT */
/* Debian's libjemalloc, as a replacement of malloc. */
#include <stdlib.h>

#define MALLOC_ALLOC malloc
#define MALLOC_FREE free
#include "malloc_calls.h"

int mallctl(const char *name, void *old, size_t *old_length, void *new, size_t new_length);

static inline void adapter_check(void)
{
    unsigned long long before = 0, after = 0;
    size_t length = sizeof(before);
    if (mallctl("thread.allocated", &before, &length, NULL, 0))
        return; /* built without statistics: the symbol is there, no more can be asked */
    void *object = malloc(4096);
    mallctl("thread.allocated", &after, &length, NULL, 0);
    free(object);
    if (after <= before)
        case_die("malloc is not jemalloc");
}
