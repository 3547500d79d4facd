/* SPDX-License-Identifier: MIT */
/* libstook-malloc as a replacement of malloc. */
#include <stdlib.h>

#include "stook_reserve.h"

#define MALLOC_ALLOC malloc
#define MALLOC_FREE free
#include "malloc_calls.h"

static inline void adapter_check(void)
{
    void *object = malloc(200);
    if (stook_usable_size(object) < 200)
        case_die("malloc is not Stook's");
    free(object);
}
