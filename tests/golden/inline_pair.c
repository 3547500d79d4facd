/* SPDX-License-Identifier: MIT */
/*
 * Callers of the inlined fast path; scripts/golden-instructions.py compares their machine code.
 */
#include <stook/inline.h>

void *golden_pop(struct stook_cache *cache);
void golden_push(struct stook_cache *cache, void *object);
void *golden_pop_static(void);
void golden_push_static(void *object);
extern struct stook_cache *golden_cache;

void *golden_pop(struct stook_cache *cache)
{
    return stook_alloc_inline(cache, 0);
}

void golden_push(struct stook_cache *cache, void *object)
{
    stook_free_inline(cache, object);
}

/* Of a cache whose pointer is a variable of the program. */
void *golden_pop_static(void)
{
    return stook_alloc_inline(golden_cache, 0);
}

void golden_push_static(void *object)
{
    stook_free_inline(golden_cache, object);
}
