/* SPDX-License-Identifier: MIT */
/* snmalloc, from the crate snmalloc-sys. */
#include <stddef.h>

void *sn_malloc(size_t size);
void sn_free(void *object);

#define MALLOC_ALLOC sn_malloc
#define MALLOC_FREE sn_free
#include "malloc_calls.h"

static inline void adapter_check(void)
{
}
