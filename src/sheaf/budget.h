/* SPDX-License-Identifier: MIT */
/*
 * budget.h - how many bytes barns may hold, a cache and in all.
 *
 * Granted bytes are never more than the cache's budget and the process's; a barn never holds more
 * than it was granted, so the bound is exact.  Granted are: to a barn, what its full sheaves hold and
 * a little ahead, in big steps, so that an exchange of sheaves touches no line that all share; to an
 * adaptive cache, what its CPUs' sheaves can hold more than before they grew.  A grant changes under
 * the lock of a barn of that cache.
 *
 * Outside of it lies what CPUs hold in sheaves of the capacity that was asked for: slot.h.
 */
#ifndef STOOK_SHEAF_BUDGET_H
#define STOOK_SHEAF_BUDGET_H

#include "slab/cache.h"

#include <stdbool.h>
#include <stddef.h>

enum {
    BUDGET_STEP = 64 << 10,    /* bytes granted to a barn at a time */
    BUDGET_ADAPTIVE = 8 << 20, /* bytes of an adaptive cache that says nothing */
};

struct budget {
    /* Atomic. */
    _Atomic size_t max, granted;
};
extern struct budget budget __attribute__((visibility("hidden")));

/* The process's budget as STOOK_CACHED_MAX sets it. */
void budget_init(void);

/* All of the bytes for the cache, or none. */
bool budget_take(struct stook_cache *cache, size_t bytes);
void budget_give(struct stook_cache *cache, size_t bytes);

/* A barn that is to hold `bytes` more; under its lock. */
bool budget_take_barn(struct stook_cache *cache, struct barn *barn, size_t bytes);
/* What it was granted and does not use goes back; under its lock. */
void budget_give_barn(struct stook_cache *cache, struct barn *barn);

#endif
