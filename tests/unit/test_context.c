/* SPDX-License-Identifier: MIT */
/* link: static */
/*
 * A handler defers work to the thread that it interrupted, which does it and then checks again.  The function that does
 * the work is the test's: it counts, and pretends that a handler defers more.
 */
#include "base/context.h"
#include "base/hooks.h"
#include "support/test.h"

#include <signal.h>

static unsigned drained, again;
static unsigned depth_seen;

static void drain(void)
{
    depth_seen = context_tls.depth;
    drained++;
    atomic_store(&context_tls.deferred, NULL);
    atomic_store(&context_tls.pages, false);
    if (again > 0) { /* a handler interrupts the deferred work and defers more */
        again--;
        atomic_store(&context_tls.deferred, (struct slab *)8);
    }
}

/* Instead of the library's. */
static bool due(enum hooks_due what, void *span, size_t blocks)
{
    (void)span, (void)blocks;
    if (what == HOOKS_DUE_LEFT)
        drain();
    return true;
}

const struct hooks hooks = {.due = due};

static int setup(void **unused)
{
    drained = again = 0;
    return 0;
}

TEST_WITH(nesting, setup, NULL)
{
    assert_false(context_enter());
    assert_true(context_enter());
    assert_true(context_enter());
    assert_int_equal(context_tls.depth, 3);
    context_leave();
    context_leave();
    context_leave();
    assert_int_equal(context_tls.depth, 0);
    assert_int_equal(drained, 0);
}

TEST_WITH(outermost_drains, setup, NULL)
{
    context_enter();
    context_enter();
    atomic_store(&context_tls.deferred, (struct slab *)8);
    context_leave(); /* the handler's end does no deferred work: it interrupted the holder */
    assert_int_equal(drained, 0);
    context_leave();
    assert_int_equal(drained, 1);
    assert_int_equal(depth_seen, 1); /* handlers meanwhile defer anew */
    assert_int_equal(context_tls.depth, 0);
}

TEST_WITH(looks_again, setup, NULL)
{
    context_enter();
    atomic_store(&context_tls.deferred, (struct slab *)8);
    again = 3;
    context_leave();
    assert_int_equal(drained, 4);
    assert_null(atomic_load(&context_tls.deferred));
    assert_int_equal(context_tls.depth, 0);
}

TEST_WITH(pages_too, setup, NULL)
{
    context_enter();
    atomic_store(&context_tls.pages, true);
    context_leave();
    assert_int_equal(drained, 1);
}

/*
 * A handler at every instruction of context_leave(): the work that it defers is done before the call is over.  Above all
 * work that it defers after the last check and before the depth falls.
 */
#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__)
#include "support/single_step.h"

static unsigned steps, target;
static bool fired, found_inside;

static void on_step(int signal, siginfo_t *info, void *ucontext)
{
    if (++steps != target)
        return;
    fired = true;
    found_inside = context_enter();
    if (found_inside)
        atomic_store(&context_tls.deferred, (struct slab *)8);
    context_leave();
    single_step_end(ucontext);
}

static __attribute__((noinline)) void leave(void)
{
    context_leave();
}

TEST_WITH(handler_at_every_instruction, setup, NULL)
{
    struct sigaction action = {.sa_sigaction = on_step, .sa_flags = SA_SIGINFO}, old;
    unsigned inside = 0, outside = 0;

    sigaction(SIGTRAP, &action, &old);
    for (target = 1, fired = true; fired; target++) {
        steps = 0;
        fired = found_inside = false;
        drained = 0;
        context_enter();
        single_step(true);
        leave();
        single_step(false);
        assert_null(atomic_load(&context_tls.deferred));
        assert_int_equal(context_tls.depth, 0);
        assert_int_equal(drained, found_inside);
        inside += fired && found_inside;
        outside += fired && !found_inside;
    }
    sigaction(SIGTRAP, &old, NULL);
    assert_true(inside > 2 && outside > 5); /* the depth falls early */
}
#endif
