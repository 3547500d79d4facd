/* SPDX-License-Identifier: MIT */
/*
 * The floor of the fast path: the library's own sections (stook/sections.h), inlined, on a per-CPU array of
 * pointers with nothing behind it.  No head of a cache is read, and an aborted section starts over.  No inlined call
 * of the library can be faster in the same loops, so the ratio to this shows the cost of the rest.
 */
#include <stddef.h>
#include <stdint.h>

#define STOOK_INLINE_NO_PIN
#include <stook/inline.h>

#define FLOOR_CAPACITY 480

/* Both stay in registers of the timed loop. */
typedef struct {
    char *slots;    /* CPU 0's; CPU n's lies n << STOOK_AREA_SHIFT behind it */
    ptrdiff_t rseq; /* offset of the C library's rseq area from the thread pointer */
} adapter_t;

/* Fills the sheaves of all CPUs it may run on; ends the worker where there is no rseq. */
adapter_t floor_rseq_open(size_t object_size);

static inline adapter_t adapter_open(size_t object_size)
{
    return floor_rseq_open(object_size);
}

static inline void *adapter_alloc(adapter_t bare)
{
    void *object;

    while (__builtin_expect(!stook_rseq_pop(bare.slots, bare.rseq, &object), 0))
        continue;
    return object;
}

static inline void adapter_free(adapter_t bare, void *object)
{
    while (__builtin_expect(!stook_rseq_push(bare.slots, bare.rseq, object), 0))
        continue;
}

static inline void adapter_check(void)
{
}
