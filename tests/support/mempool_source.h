/* SPDX-License-Identifier: MIT */
/* mempool_source.h - functions of a memory pool that fail on request: at most `allowed` elements exist at a time. */
#ifndef TESTS_SUPPORT_MEMPOOL_SOURCE_H
#define TESTS_SUPPORT_MEMPOOL_SOURCE_H

#include <stook/kmem.h>

#include <stdatomic.h>

struct source {
    atomic_int allowed; /* so many at a time */
    atomic_int out;
    atomic_uint asked_atomic, asked_waiting; /* calls that may not and may wait */
};

static void *source_alloc(gfp_t gfp, void *data)
{
    struct source *source = data;
    int out = atomic_fetch_add(&source->out, 1);

    atomic_fetch_add(gfp & __GFP_DIRECT_RECLAIM ? &source->asked_waiting : &source->asked_atomic,
                     1);
    if (out < atomic_load(&source->allowed)) {
        int *element = kmalloc(sizeof(int) * 2, GFP_ATOMIC);
        if (element) {
            element[0] = 0;
            return element;
        }
    }
    atomic_fetch_sub(&source->out, 1);
    return NULL;
}

static void source_free(void *element, void *data)
{
    struct source *source = data;

    kfree(element);
    atomic_fetch_sub(&source->out, 1);
}

#endif
