/* SPDX-License-Identifier: MIT */
/* jemalloc 5.3.1, from the crate tikv-jemalloc-sys. */
#include <stddef.h>
#include <string.h>

void *_rjem_malloc(size_t size);
void _rjem_free(void *object);
int _rjem_mallctl(const char *name, void *old, size_t *old_length, void *new, size_t new_length);

#define MALLOC_ALLOC _rjem_malloc
#define MALLOC_FREE _rjem_free
#include "malloc_calls.h"

static inline void adapter_check(void)
{
    const char *version = NULL;
    size_t length = sizeof(version);
    if (_rjem_mallctl("version", &version, &length, NULL, 0) || strncmp(version, "5.3.1", 5))
        case_die("jemalloc is not 5.3.1");
}
