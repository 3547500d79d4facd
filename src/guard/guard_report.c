/* SPDX-License-Identifier: MIT */
/* What a guarded object was found to suffer, with the stacks of who did it, who allocated and who freed. */
#include "guard/guard_fault.h"

#include "base/lock.h"
#include "base/report.h"
#include "site/stack.h"

#include <stdarg.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { GUARD_TEXT = 8192, GUARD_TURNS = 1000 };

/* One report at a time; a thread that dies while it reports holds the others up for a moment. */
static char guard_text[GUARD_TEXT];
static size_t guard_length;
static _Atomic uint32_t guard_reporting;

static __attribute__((format(printf, 1, 2))) void guard_say(const char *format, ...)
{
    size_t room = sizeof(guard_text) - guard_length;
    va_list args;
    int n;

    va_start(args, format);
    n = vsnprintf(guard_text + guard_length, room, format, args);
    va_end(args);
    if (n > 0)
        guard_length += (size_t)n < room ? (size_t)n : room - 1;
}

static void guard_say_who(const char *what, const struct guard_who *who)
{
    if (who->depth == 0)
        return;
    guard_say("%s by thread %d:\n", what, who->thread);
    for (uint32_t i = 0; i < who->depth && i < GUARD_FRAMES; i++)
        guard_say("  #%u 0x%llx\n", i, (unsigned long long)who->frames[i]);
}

static void guard_say_what(const struct guard_finding *finding)
{
    const struct guard_slot *slot = finding->slot;
    const char *at = finding->at, *begin = slot ? slot->object : NULL;
    const char *end = slot ? begin + slot->size : NULL;

    switch (finding->what) {
    case GUARD_BEHIND:
        guard_say("overflow: %s at %p, %zu bytes behind the end of", finding->access, finding->at,
                  (size_t)(at - end));
        break;
    case GUARD_BEFORE:
        guard_say("underflow: %s at %p, %zu bytes before", finding->access, finding->at,
                  (size_t)(begin - at));
        break;
    case GUARD_AFTER_FREE:
        guard_say("use after free: %s at %p, %td bytes into", finding->access, finding->at,
                  at - begin);
        break;
    case GUARD_ZONE_BEHIND:
        guard_say("overflow: %zu bytes were written %zu bytes behind the end of", finding->changed,
                  (size_t)(at - end));
        break;
    case GUARD_ZONE_BEFORE:
        guard_say("underflow: %zu bytes were written %zu bytes before", finding->changed,
                  (size_t)(begin - at));
        break;
    case GUARD_TWICE:
        guard_say("freed twice: %s of", finding->call);
        break;
    case GUARD_INSIDE:
        guard_say("bad free: %s of pointer %p, %td bytes into", finding->call, finding->at,
                  at - begin);
        break;
    case GUARD_CALLED:
        guard_say("use after free: %s of", finding->call);
        break;
    case GUARD_NOTHING:
        guard_say("bad pointer: %s %p, where no object is",
                  finding->call ? finding->call : finding->access, finding->at);
        break;
    }
    if (slot && finding->what != GUARD_NOTHING)
        guard_say(" the object %p of %zu bytes (%s)", (void *)slot->object, slot->size,
                  slot->cache->name);
    guard_say("\n");
}

void guard_report(const struct guard_finding *finding)
{
    struct guard_who caller = {0};
    uint32_t none = 0;

    for (unsigned turn = 0;
         turn < GUARD_TURNS && !atomic_compare_exchange_strong(&guard_reporting, &none, 1);
         turn++) {
        none = 0;
        lock_pause(turn);
    }
    if (!finding->who) {
        caller.thread = (int32_t)syscall(SYS_gettid);
        caller.depth = stack_walk(0, caller.frames, GUARD_FRAMES);
    }
    guard_length = 0;
    guard_say("stook: sampled object: ");
    guard_say_what(finding);
    guard_say_who(finding->who ? "Access" : "Call", finding->who ? finding->who : &caller);
    if (finding->slot && finding->what != GUARD_NOTHING) {
        guard_say_who("Allocated", &finding->slot->allocated);
        guard_say_who("Freed", &finding->slot->freed);
    }
    (void)report_write(STDERR_FILENO, guard_text, guard_length);
    atomic_store(&guard_reporting, 0);
}
