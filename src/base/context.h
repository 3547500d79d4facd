/* SPDX-License-Identifier: MIT */
/*
 * context.h - whether this thread is inside the library, and the work that it must do before it leaves.
 *
 * Every slow path runs between context_enter() and context_leave().  A signal handler that
 * interrupts one finds depth > 0 and knows that its thread may hold any lock or a closed slot.  So it only
 * tries locks.  If a free cannot finish its work, it leaves the slab on `deferred`.  The interrupted holder
 * empties that list when its depth falls to zero, and then checks it again.
 * A handler and the code it interrupts are one thread: signal fences order them.
 */
#ifndef STOOK_BASE_CONTEXT_H
#define STOOK_BASE_CONTEXT_H

#include <stdatomic.h>
#include <stdbool.h>

struct slab;

enum {
    CONTEXT_DUE_SCAN = 1,     /* for CPUs that have come or gone */
    CONTEXT_DUE_CAPACITY = 2, /* of grown caches */
    CONTEXT_DUE_WARM = 4,     /* of warm memory that may be needed no more */
};

struct context {
    unsigned depth;
    unsigned ranks;                  /* debug: ranks of the locks held */
    _Atomic(struct slab *) deferred; /* slabs whose list work a handler left behind */
    _Atomic bool pages;              /* a handler left pages to be given back (page/arena.c) */
    _Atomic bool rcu;                /* a handler left full rcu sheaves to be handed over */
    unsigned due; /* CONTEXT_DUE_*: for an allocation that may wait (cache/upkeep.h) */
    enum { FORK_NONE, FORK_TAKING, FORK_HOLDING } fork;
};

extern __thread struct context context_tls
    __attribute__((visibility("hidden"), tls_model("initial-exec")));

static inline struct context *context_self(void)
{
    struct context *context = &context_tls;

    /* The address as an opaque value: GCC 12 tests it for NULL (-fsanitize=null) by the flags of
     * an addition that the linker relaxes to lea, which sets none. */
    __asm__("" : "+r"(context));
    return context;
}

/* True when the thread was inside the library already: a handler that may only try locks. */
static inline bool context_enter(void)
{
    bool nested = context_tls.depth++ != 0;

    atomic_signal_fence(memory_order_seq_cst);
    return nested;
}

/*
 * True between fork_prepare() and its end: this thread holds every lock of the library.  Atfork handlers of
 * other libraries run meanwhile and may allocate: for them locks are no-ops.
 */
static inline bool context_holds_all(void)
{
    return context_tls.fork == FORK_HOLDING;
}

static inline __attribute__((always_inline)) bool context_has_deferred(struct context *context)
{
    return atomic_load_explicit(&context->deferred, memory_order_relaxed) ||
           atomic_load_explicit(&context->pages, memory_order_relaxed) ||
           atomic_load_explicit(&context->rcu, memory_order_relaxed);
}

/* Does all deferred work, at depth 1, so that handlers defer anew; at depth 0 before and afterwards. */
void context_run_deferred(void);

static inline void context_leave(void)
{
    struct context *context = context_self();

    atomic_signal_fence(memory_order_seq_cst);
    context->depth--;
    atomic_signal_fence(memory_order_seq_cst);
    /* Behind the store: a handler before it found depth 1, and deferred. */
    if (__builtin_expect(context->depth == 0 && context_has_deferred(context), 0))
        context_run_deferred();
}

#endif
