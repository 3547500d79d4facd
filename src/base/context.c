/* SPDX-License-Identifier: MIT */
#include "base/context.h"

#include "base/hooks.h"

__thread struct context context_tls;

void context_settle(void)
{
    struct context *context = context_self();

    while (context_left_behind(context)) {
        if (atomic_load_explicit(&context->deferred, memory_order_relaxed))
            hooks.settle_slabs(NULL);
        if (atomic_load_explicit(&context->large, memory_order_relaxed))
            hooks.settle_large();
        if (atomic_load_explicit(&context->rcu, memory_order_relaxed))
            hooks_rcu()->settle();
    }
}
