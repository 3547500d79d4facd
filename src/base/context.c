/* SPDX-License-Identifier: MIT */
#include "base/context.h"

#include <stddef.h>

__thread struct context context_tls;
void (*context_settler)(struct slab *slab);
void (*context_large_settler)(void);
void (*context_rcu_settler)(void);

void context_settle(void)
{
    struct context *context = context_self();

    while (context_left_behind(context)) {
        if (atomic_load_explicit(&context->deferred, memory_order_relaxed))
            context_settler(NULL);
        if (atomic_load_explicit(&context->large, memory_order_relaxed))
            context_large_settler();
        if (atomic_load_explicit(&context->rcu, memory_order_relaxed))
            context_rcu_settler();
    }
}
