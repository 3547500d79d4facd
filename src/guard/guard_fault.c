/* SPDX-License-Identifier: MIT */
/*
 * guard_fault.c - the handler of SIGSEGV.  It reports a fault in the pool.  Then it passes that fault, and every other
 * one, on to the program's handler or to the kernel.
 *
 * The library installs it when the first object is sampled, in front of the handler that the program has at that time.
 * It has that handler's flags and mask, so a handler on an alternate stack stays there.  If the program installs a
 * handler later, that one replaces it: the program gets all faults, and there is no report.
 */
#include "guard/guard_fault.h"

#include "base/placed.h"
#include "base/raw.h"
#include "base/where.h"
#include "debug/report.h"
#include "guard/guard_pool.h"
#include "os/os.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <ucontext.h>

static struct sigaction guard_before LARGE_BSS; /* constant once the handler is installed */

void guard_report(const struct guard_slot *slot, const void *at, enum debug_done done,
                  uint64_t where, const char *format, ...)
{
    struct debug_finding finding = {.what = DEBUG_GUARD, .done = done, .at = at, .where = where};
    char said[128], text[256];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(said, sizeof(said), format, args);
    va_end(args);
    (void)snprintf(text, sizeof(text), "%s, between sampled objects", said);
    finding.text = text;
    if (slot) {
        ptrdiff_t into = (const char *)at - slot->object, behind = into - (ptrdiff_t)slot->size;
        (void)snprintf(text, sizeof(text), "%s, %td bytes %s sampled object %p of %zu bytes", said,
                       into < 0      ? -into
                       : behind >= 0 ? behind
                                     : into,
                       into < 0      ? "before"
                       : behind >= 0 ? "behind"
                                     : "into",
                       (void *)slot->object, slot->size);
        finding.cache = slot->cache;
        finding.object = slot->object;
        finding.size = finding.requested = slot->size;
        finding.track[0] = &slot->allocated;
        finding.track[1] = &slot->freed;
    }
    (void)debug_report(&finding);
}

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
static struct guard_slot *guard_nearest(const char *at)
{
    size_t between = ((uintptr_t)at - guard.base) / guard.page / 2;
    struct guard_slot *left = between > 0 ? &guard.slot[between - 1] : NULL;
    struct guard_slot *right = between < GUARD_SLOTS ? &guard.slot[between] : NULL;

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
    return right ? right : left;
}

static void guard_say_fault(const struct guard_slot *slot, const void *at, enum debug_done done,
                            const ucontext_t *context)
{
    const char *kind = guard_slot_of(at)                 ? "use after free: "
                       : !slot                           ? ""
                       : (const char *)at < slot->object ? "underflow: "
                                                         : "overflow: ";

    guard_report(slot, at, done, where_address((const void *)(uintptr_t)guard_code(context)),
                 "%s%s at %p", kind, guard_access(context), at);
}

/* The access is made again, of a page that may be used from now on; false: the kernel refuses. */
static bool guard_give_in(struct guard_slot *slot, const void *at)
{
    char *page = (char *)guard.base + ((uintptr_t)at - guard.base) / guard.page * guard.page;
    uint64_t word;

    if (slot)
        atomic_fetch_or_explicit(&slot->flags, GUARD_BROKEN, memory_order_relaxed);
    if (guard_slot_of(at)) {
        slot = guard_slot_of(at);
        word = atomic_load_explicit(&slot->word, memory_order_acquire);
        if (guard_state(slot) == GUARD_FREED && guard_take(slot, word))
            guard_set(slot, GUARD_OPEN);
    }
    return os_unguard(page, guard.page);
}

/* True: the program goes on. */
static bool guard_fault(const siginfo_t *info, const ucontext_t *context)
{
    struct guard_slot *slot = guard_slot_of(info->si_addr);
    bool goes_on;

    if (!slot)
        slot = guard_nearest(info->si_addr);
    else if (!slot->object)
        slot = NULL;
    goes_on = debug_goes_on(slot ? slot->cache : NULL);
    if (!slot || !(atomic_fetch_or_explicit(&slot->flags, GUARD_REPORTED, memory_order_relaxed) &
                   GUARD_REPORTED))
        guard_say_fault(slot, info->si_addr, goes_on ? DEBUG_OPENED : DEBUG_PASSED, context);
    return goes_on && guard_give_in(slot, info->si_addr);
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
            (void)raw_call(SYS_tgkill, raw_getpid(), raw_gettid(),
                           SIGSEGV); /* waits for the end of this handler */
    }
}

static void guard_handle(int number, siginfo_t *info, void *context)
{
    int saved = errno;

    bool goes_on = info->si_code > 0 && guard_covers(info->si_addr) && guard_fault(info, context);

    errno = saved;
    if (!goes_on)
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
