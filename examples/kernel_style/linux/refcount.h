/* SPDX-License-Identifier: MIT */
#ifndef KERNEL_STYLE_REFCOUNT_H
#define KERNEL_STYLE_REFCOUNT_H

#include <stdbool.h>

typedef struct refcount {
    int refs;
} refcount_t;

static inline void refcount_set(refcount_t *r, int n)
{
    __atomic_store_n(&r->refs, n, __ATOMIC_RELEASE);
}

static inline bool refcount_inc_not_zero(refcount_t *r)
{
    int n = __atomic_load_n(&r->refs, __ATOMIC_RELAXED);

    while (n > 0)
        if (__atomic_compare_exchange_n(&r->refs, &n, n + 1, true, __ATOMIC_ACQUIRE,
                                        __ATOMIC_RELAXED))
            return true;
    return false;
}

static inline bool refcount_dec_and_test(refcount_t *r)
{
    return __atomic_sub_fetch(&r->refs, 1, __ATOMIC_ACQ_REL) == 0;
}

#endif
