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

enum guard_what { GUARD_BEHIND, GUARD_BEFORE, GUARD_FREED_ONE };

static struct sigaction guard_before; /* constant once the handler is installed */

void guard_report(const struct guard_slot *slot, const void *at, enum debug_done done,
                  uint64_t where, const char *format, ...)
{
    struct debug_finding finding = {.what = DEBUG_GUARD, .done = done, .at = at, .where = where};
    char text[256];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    finding.text = text;
    if (slot) {
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
static struct guard_slot *guard_nearest(const char *at, enum guard_what *what)
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
    *what = right ? GUARD_BEFORE : GUARD_BEHIND;
    return right ? right : left;
}

static void guard_say_fault(const struct guard_slot *slot, const void *at, enum guard_what what,
                            enum debug_done done, const ucontext_t *context)
{
    uint64_t where = where_address((const void *)(uintptr_t)guard_code(context));
    const char *access = guard_access(context);

    if (!slot)
        guard_report(NULL, at, done, where, "%s at %p, between sampled objects", access, at);
    else if (what == GUARD_FREED_ONE)
        guard_report(slot, at, done, where,
                     "use after free: %s at %p, %td bytes into sampled object %p of %zu bytes",
                     access, at, (const char *)at - slot->object, (void *)slot->object, slot->size);
    else if (what == GUARD_BEFORE)
        guard_report(slot, at, done, where,
                     "underflow: %s at %p, %td bytes before sampled object %p of %zu bytes", access,
                     at, slot->object - (const char *)at, (void *)slot->object, slot->size);
    else
        guard_report(slot, at, done, where,
                     "overflow: %s at %p, %td bytes behind the %zu bytes of sampled object %p",
                     access, at, (const char *)at - slot->object - (ptrdiff_t)slot->size,
                     slot->size, (void *)slot->object);
}

/* The access is made again, of a page that may be used from now on; false: the kernel refuses. */
static bool guard_give_in(struct guard_slot *slot, const void *at)
{
    char *page = (char *)guard.base + ((uintptr_t)at - guard.base) / guard.page * guard.page;
    uint64_t word;

    if (slot)
        atomic_fetch_or_explicit(&slot->told, GUARD_BROKEN, memory_order_relaxed);
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
    enum guard_what what = GUARD_FREED_ONE;
    bool goes_on;

    if (!slot)
        slot = guard_nearest(info->si_addr, &what);
    else if (!slot->object)
        slot = NULL;
    goes_on = debug_goes_on(slot ? slot->cache : NULL);
    if (!slot ||
        !(atomic_fetch_or_explicit(&slot->told, GUARD_TOLD, memory_order_relaxed) & GUARD_TOLD))
        guard_say_fault(slot, info->si_addr, what, goes_on ? DEBUG_OPENED : DEBUG_PASSED, context);
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
