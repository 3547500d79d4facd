/* SPDX-License-Identifier: MIT */
/*
 * context.c - the state of a thread inside the library, and the work that a thread does before it
 * leaves: slabs, pages and deferred frees that an interrupting signal handler could not finish.
 */
#include "base/context.h"

#include "base/hooks.h"

__thread struct context context_tls;

__attribute__((cold)) void context_run_deferred(void)
{
    struct context *context = context_self();

    do {
        context->depth = 1;
        atomic_signal_fence(memory_order_seq_cst);
        if (atomic_load_explicit(&context->deferred, memory_order_relaxed) ||
            atomic_load_explicit(&context->pages, memory_order_relaxed))
            (void)hooks.due(HOOKS_DUE_LEFT, NULL, 0);
        if (atomic_load_explicit(&context->rcu, memory_order_relaxed))
            hooks_rcu()(HOOKS_RCU_FLUSH, NULL, NULL);
        atomic_signal_fence(memory_order_seq_cst);
        context->depth = 0;
        atomic_signal_fence(memory_order_seq_cst);
    } while (context_has_deferred(context));
}
