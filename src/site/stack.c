/* SPDX-License-Identifier: MIT */
#include "site/stack.h"

#include <stdbool.h>
#include <unwind.h>

enum { STACK_SKIP = 16 }; /* frames of ours, at most, before the caller's */

static __thread bool stack_busy __attribute__((tls_model("initial-exec")));

struct stack_walk {
    uint64_t from, *frames;
    unsigned depth, most, skipped;
};

static _Unwind_Reason_Code stack_frame(struct _Unwind_Context *context, void *arg)
{
    struct stack_walk *walk = arg;
    uint64_t address = _Unwind_GetIP(context);

    if (address == 0)
        return _URC_END_OF_STACK;
    if (walk->depth == 0 && walk->from != 0 && address != walk->from)
        return ++walk->skipped < STACK_SKIP ? _URC_NO_REASON : _URC_END_OF_STACK;
    if (walk->from == 0 && walk->skipped == 0) { /* this function's caller's own frame */
        walk->skipped = 1;
        return _URC_NO_REASON;
    }
    walk->frames[walk->depth++] = address;
    return walk->depth < walk->most ? _URC_NO_REASON : _URC_END_OF_STACK;
}

__attribute__((noinline)) unsigned stack_walk(uint64_t from, uint64_t *frames, unsigned most)
{
    struct stack_walk walk = {.from = from, .frames = frames, .most = most};

    if (!stack_busy) {
        stack_busy = true; /* a handler that comes meanwhile, or what the unwinder might allocate */
        (void)_Unwind_Backtrace(stack_frame, &walk);
        stack_busy = false;
    }
    if (walk.depth == 0 && from != 0)
        frames[walk.depth++] = from;
    return walk.depth;
}
