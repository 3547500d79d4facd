/* SPDX-License-Identifier: MIT */
/*
 * guard_fault.c - the handler of SIGSEGV: says what a fault in the pool is, and leaves it, as all other
 * faults, to the program's handler or to the kernel.
 *
 * It is installed before whatever handler the program has when the first object is sampled, with that one's flags
 * and mask, so that handlers on a stack of their own stay there.  A program that installs its own later takes
 * its place: then a fault is that program's, as any other, and there is no report.
 */
#include "guard/guard_fault.h"

#include "site/stack.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

enum {
    GUARD_STACK_LEAST =
        16 << 10, /* of an alternative stack: else the fault's own stack is not unwound */
};

static struct sigaction guard_before; /* constant once the handler is installed */

/* What the processor says about the access. */
static const char *guard_access(const ucontext_t *context)
{
#if defined(__x86_64__)
    return context->uc_mcontext.gregs[REG_ERR] & 2 ? "write" : "read";
#else
    (void)context;
    return "access";
#endif
}

static uint64_t guard_code(const ucontext_t *context)
{
#if defined(__x86_64__)
    return (uint64_t)context->uc_mcontext.gregs[REG_RIP];
#elif defined(__aarch64__)
    return context->uc_mcontext.pc;
#elif defined(__riscv)
    return context->uc_mcontext.__gregs[REG_PC];
#else
    (void)context;
    return 0;
#endif
}

/* Which of two objects an access to the page between them is nearer to. */
static const struct guard_slot *guard_nearest(const char *at, enum guard_what *what)
{
    size_t between = ((uintptr_t)at - guard.base) / guard.page / 2;
    const struct guard_slot *left = between > 0 ? &guard.slot[between - 1] : NULL;
    const struct guard_slot *right = between < guard.slots ? &guard.slot[between] : NULL;

    if (left && guard_state(left) != GUARD_LIVE && guard_state(left) != GUARD_FREED)
        left = NULL;
    if (right && guard_state(right) != GUARD_LIVE && guard_state(right) != GUARD_FREED)
        right = NULL;
    if (left && right) { /* what lives rather than what is freed, then what is nearer */
        bool lives = guard_state(left) == GUARD_LIVE;
        if (lives != (guard_state(right) == GUARD_LIVE))
            *(lives ? &right : &left) = NULL;
        else if (at - (left->object + left->size) < right->object - at)
            right = NULL;
    }
    *what = right ? GUARD_BEFORE : GUARD_BEHIND;
    return right ? right : left;
}

static void guard_fault(const siginfo_t *info, const ucontext_t *context)
{
    struct guard_finding finding = {.at = info->si_addr, .access = guard_access(context)};
    const struct guard_slot *slot = guard_slot_of(info->si_addr);
    const stack_t *stack =
        &context->uc_stack; /* the alternative one; its size is 0 where there is none */
    bool narrow =
        !(stack->ss_flags & SS_DISABLE) && stack->ss_size > 0 && stack->ss_size < GUARD_STACK_LEAST;
    struct guard_who who = {.thread = (int32_t)syscall(SYS_gettid), .depth = 1};

    finding.what = GUARD_AFTER_FREE;
    finding.slot = slot && slot->object ? slot : NULL;
    if (!slot)
        finding.slot = guard_nearest(info->si_addr, &finding.what);
    if (!finding.slot)
        finding.what = GUARD_NOTHING;
    else if (atomic_exchange_explicit(&((struct guard_slot *)(uintptr_t)finding.slot)->told, 1,
                                      memory_order_relaxed) != 0)
        return;
    who.frames[0] = guard_code(context);
    if (!narrow)
        who.depth = stack_walk(who.frames[0], who.frames, GUARD_FRAMES);
    finding.who = &who;
    guard_report(&finding);
}

/* As if the handler were not here: the instruction faults again, or the signal is sent again. */
static void guard_leave(int number, siginfo_t *info, void *context)
{
    struct sigaction none = {.sa_handler = SIG_DFL};

    if (guard_before.sa_flags & SA_SIGINFO) {
        guard_before.sa_sigaction(number, info, context);
    } else if (guard_before.sa_handler != SIG_DFL) {
        guard_before.sa_handler(number);
    } else {
        (void)sigaction(SIGSEGV, &none, NULL);
        if (info->si_code <= 0)
            (void)raise(SIGSEGV); /* waits for the end of this handler */
    }
}

static void guard_handle(int number, siginfo_t *info, void *context)
{
    int saved = errno;

    if (info->si_code > 0 && guard_covers(info->si_addr))
        guard_fault(info, context);
    errno = saved;
    guard_leave(number, info, context);
}

bool guard_catch(void)
{
    struct sigaction own = {.sa_sigaction = guard_handle, .sa_flags = SA_SIGINFO | SA_ONSTACK};

    if (sigaction(SIGSEGV, NULL, &guard_before) != 0)
        return false;
    if (!(guard_before.sa_flags & SA_SIGINFO) && guard_before.sa_handler == SIG_IGN)
        return true; /* what it starts by exec ignores the signal, too: faults end the process without a word */
    if ((guard_before.sa_flags & SA_SIGINFO) || guard_before.sa_handler != SIG_DFL) {
        own.sa_flags = guard_before.sa_flags | SA_SIGINFO;
        own.sa_mask = guard_before.sa_mask;
    }
    return sigaction(SIGSEGV, &own, NULL) == 0;
}
