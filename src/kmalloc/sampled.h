/* SPDX-License-Identifier: MIT */
/*
 * sampled.h - the door of malloc and kmalloc at which their allocations are counted for samples (sample/sample.h).
 *
 * Where nothing is sampled, no call comes by here.  Where something is (stook_kmalloc_doors()), no class has an entry in
 * the tables of the fast paths (malloc/fast.h, kmalloc.c).  So each allocation leaves the fast path, and compares its
 * size with the thread's countdown.  If it is no sample, it pops an object by the fast path's section, and counts down
 * (class_again(), kmalloc_slow()).  If it is due, or the main sheaf is empty, it takes the slow path, which counts it
 * by the function below.  So each allocation is counted once.  Frees stay fast.  A sample lies in a shadow cache or
 * between pages without access, where `free` finds it by what it looks up anyway.
 */
#ifndef STOOK_KMALLOC_SAMPLED_H
#define STOOK_KMALLOC_SAMPLED_H

#include "observe/observe.h"
#include "sample/sample.h"

/* An allocation of a cache of malloc's or kmalloc's whose objects are known by nothing else (cache_hooks()): it counts. */
static inline void *sampled_alloc(struct stook_cache *cache, size_t size, size_t align,
                                  uint64_t where, bool zero)
{
    return sample_is_due(size + 1) ? observe_sample(cache, size, align, where, zero) : NULL;
}

#endif
