/* SPDX-License-Identifier: MIT */
/*
 * budget.h - how many bytes barns may hold, a cache and in all.
 *
 * Granted bytes are never more than the cache's budget and the process's.  A barn never holds more than it was
 * granted, so the bound is exact.  A barn is granted the bytes of its full sheaves and some in advance, in
 * large steps, so that an exchange of sheaves touches no line that all CPUs share.  An adaptive cache is granted
 * the bytes that its CPUs' sheaves can hold beyond its base capacity.  A grant changes under the lock of a barn
 * of that cache.
 *
 * CPUs' sheaves of the base capacity do not count (slot.h).
 */
#ifndef STOOK_SHEAF_BUDGET_H
#define STOOK_SHEAF_BUDGET_H

#include "slab/cache.h"

#include <stdbool.h>
#include <stddef.h>

enum {
    BUDGET_STEP = 64 << 10,    /* bytes granted to a barn at a time */
    BUDGET_ADAPTIVE = 8 << 20, /* bytes of an adaptive cache that says nothing */
    BUDGET_MALLOC = 16 << 20,  /* of all classes of malloc together, or … */
    BUDGET_MALLOC_SHARE = 16,  /* … one in so many of the bytes in use, if that is more */
};

struct budget {
    /* Atomic. */
    _Atomic size_t max, granted;   /* max: the process's budget, as STOOK_CACHED_MAX sets it */
    _Atomic size_t malloc_granted; /* of these, to malloc's classes */
};
extern struct budget budget __attribute__((visibility("hidden")));

/* All of the bytes for the cache, or none. */
bool budget_take(struct stook_cache *cache, size_t bytes);
void budget_give(struct stook_cache *cache, size_t bytes);

/* A grant for a barn that is to hold `bytes` more; under its lock. */
bool budget_take_barn(struct stook_cache *cache, struct barn *barn, size_t bytes);
/* Returns the unused part of a barn's grant; under its lock. */
void budget_give_barn(struct stook_cache *cache, struct barn *barn);

#endif
