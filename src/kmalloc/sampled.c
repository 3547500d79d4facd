/* SPDX-License-Identifier: MIT */
/*
 * sampled.c - objects for samples of malloc and kmalloc (sampled.h).
 */
#include "kmalloc/sampled.h"

#include "base/context.h"
#include "charge/group.h"
#include "guard/guard.h"
#include "sample/shadow.h"

#include <errno.h>

__attribute__((noinline, cold)) void *sampled_take(struct stook_cache *cache, size_t size,
                                                   size_t align, uint64_t where, bool zero)
{
    const struct sample sample = sample_take(size + 1);
    const struct shadow_call call = {size, align, where, group_current(), zero};
    int saved = errno;
    void *object = NULL;

    /* Not in a handler that interrupted the library, nor beside a fork of this thread. */
    if (sample.weight > 0 && context_self()->depth == 0)
        object = sample.line == SAMPLE_PROFILE
                     ? shadow_alloc(cache, &call, sample.weight)
                     : guard_alloc(cache, size, align, where, sample.weight);
    errno = saved;
    return object;
}
