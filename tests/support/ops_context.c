/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE 1
#include "support/ops_model.h"

#include "base/context.h"

#include <signal.h>

unsigned ops_flags(unsigned flags)
{
    return ops.depth > 0 ? (flags & STOOK_ZERO) | STOOK_SIGNAL_SAFE : flags;
}

/* In a handler: one operation or two of its own. */
static void ops_visit(void)
{
    int saved = errno;
    bool nested = context_tls.depth > 0;

    ops.depth++;
    ops.counts->handled++;
    ops.counts->inside += nested;
    ops.counts->nested += ops.depth > 1;
    ops_handler_step();
    if (ops_byte() & 1)
        ops_handler_step();
    ops.depth--;
    errno = saved;
}

#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__)
#include "support/single_step.h"

/*
 * The call is single-stepped until its so many'th instruction, where the handler of that trap does
 * operations of its own: that can be any point of the library, and the seed says which.  A handler's
 * calls are stepped likewise.
 */
enum {
#ifdef __SANITIZE_ADDRESS__
    OPS_MOST_STEPS =
        4000, /* what debug caches and locked mode check first takes so many more instructions */
#else
    OPS_MOST_STEPS = 800,
#endif
};

static struct ops_frame {
    volatile bool armed;
    unsigned steps, wanted, visits;
} ops_frame[OPS_NESTING + 1];

static void ops_on_step(int signal, siginfo_t *info, void *ucontext)
{
    struct ops_frame *frame = &ops_frame[ops.depth];

    /* Held: the call has called the model. */
    if (++frame->steps < frame->wanted || (!frame->armed && frame->visits > 0))
        return;
    if (frame->armed) {
        frame->armed = false;
        ops_visit();
        frame->wanted = frame->steps + 1 + ops_byte();
        frame->armed = --frame->visits > 0;
    }
    if (frame->visits == 0)
        single_step_end(ucontext);
}

void ops_arm(void)
{
    struct ops_frame *frame = &ops_frame[ops.depth];

    if (ops.depth == OPS_NESTING || ops_below(ops.depth ? 24 : 150) != 0)
        return;
    frame->steps = 0;
    frame->wanted = 1 + ops_below(ops_byte() % 2 ? 150 : OPS_MOST_STEPS);
    frame->visits = 1 + ops_byte() % 3;
    frame->armed = true;
    single_step(true);
}

void ops_disarm(void)
{
    ops_frame[ops.depth].armed = false;
    ops_frame[ops.depth].visits = 0;
    single_step(false);
}

bool ops_hold(void)
{
    bool armed = ops_frame[ops.depth].armed;

    ops_frame[ops.depth].armed = false;
    return armed;
}

void ops_release(bool armed)
{
    ops_frame[ops.depth].armed = armed;
}

void ops_context_use(void)
{
    struct sigaction action = {.sa_sigaction = ops_on_step, .sa_flags = SA_SIGINFO | SA_NODEFER};

    OPS_CHECK(sigaction(SIGTRAP, &action, NULL) == 0);
}

#else

/* Where nothing can be stepped: as in a handler that interrupted the library between two of its steps. */
void ops_arm(void)
{
    if (ops.depth == OPS_NESTING || ops_below(ops.depth ? 24 : 150) != 0)
        return;
    (void)context_enter();
    ops_visit();
    context_leave();
}

bool ops_hold(void)
{
    return false;
}

void ops_release(bool armed)
{
}

void ops_disarm(void)
{
}
void ops_context_use(void)
{
}

#endif
