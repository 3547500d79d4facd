/* SPDX-License-Identifier: MIT */
/* needs: whole native */
/*
 * A signal handler that defers frees, anywhere in deferred frees, barriers and shrinks: the thread is
 * single-stepped, and every few instructions the handler defers an object, or takes or frees one.
 * Objects in wait keep their pattern; at the end nothing is lost, and nothing twice.
 * STOOK_TEST_ROUNDS=n for more than the default.
 */
#include "support/rcu_by_hand.h"

#include "support/random.h"

#include <stook/rcu.h>

#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__)
#include "support/single_step.h"

enum { POOL = 60 };

static void *pool[POOL]; /* the handler's */
static unsigned pooled, steps, next_step, visits, handled, inside, alone;
static uint64_t seed = 1;
static volatile bool done;

static void visit(void)
{
    handled++;
    inside += context_tls.depth > 0;
    for (unsigned i = random_below(&seed, 4); i < 4; i++) {
        if (pooled > 0 && random_below(&seed, 8))
            stook_free_rcu(cache, pool[--pooled]);
        else if (pooled > 0)
            stook_free(cache, pool[--pooled]);
    }
    if (random_below(&seed, 4) == 0) {
        void *object = stook_alloc(cache, STOOK_SIGNAL_SAFE);
        if (object && pooled < POOL)
            pool[pooled++] = object;
        else
            stook_free(cache, object);
    }
}

static void on_step(int signal, siginfo_t *info, void *ucontext)
{
    if (done || ++steps < next_step)
        return;
    next_step = steps + 3 + random_below(&seed, 60);
    visit();
    if (--visits == 0) /* more would keep the thread at passing sheaves on */
        single_step_end(ucontext);
}

/* ---- the calls that are interrupted ----------------------------------------------------------- */

static void do_first(void)
{
    defer(1);
}

static void do_fill(void)
{
    defer(4);
}

static void do_barrier(void)
{
    stook_rcu_barrier();
}

static void do_shrink(void)
{
    stook_cache_shrink(cache);
}

struct scenario {
    const char *name;
    void (*call)(void);
    unsigned waiting; /* in this CPU's sheaf before */
    unsigned within;  /* the first visit comes within so many instructions */
};

static const struct scenario scenarios[] = {
    {"a sheaf begins", do_first, 0, 800},
    {"a sheaf is filled", do_fill, CAPACITY - 2, 2000},
    {"barrier", do_barrier, CAPACITY - 2, 2000},
    {"shrink", do_shrink, CAPACITY - 2, 2000},
};

static void run_once(const struct scenario *s)
{
    take(POOL + s->waiting + 4);
    for (pooled = 0; pooled < POOL; pooled++)
        pool[pooled] = objects[--held];
    defer(s->waiting);
    steps = 0;
    next_step = random_below(&seed, s->within);
    visits = 1 + random_below(&seed, 8);
    done = false;
    single_step(true);
    s->call();
    done = true;
    single_step(false);
    assert_int_equal(context_tls.rcu, false);
    while (pooled > 0)
        objects[held++] = pool[--pooled];
    stook_rcu_barrier();
    check();
    while (held > 0)
        stook_free(cache, objects[--held]);
    alone += atomic_load(&singles);
}

TEST(handler_anywhere)
{
    struct sigaction action = {.sa_sigaction = on_step, .sa_flags = SA_SIGINFO}, old;
    const char *text = getenv("STOOK_TEST_ROUNDS");
    unsigned rounds = text ? (unsigned)atoi(text) : 40;

    sigaction(SIGTRAP, &action, &old);
    for (size_t i = 0; i < sizeof(scenarios) / sizeof(scenarios[0]); i++) {
        unsigned all = 0;
        handled = inside = alone = 0;
        for (unsigned round = 0; round < rounds; round++) {
            setup(NULL);
            run_once(&scenarios[i]);
            teardown(NULL);
            all += steps;
        }
        printf("%s: %u instructions, %u handlers, %u inside, %u objects alone\n", scenarios[i].name,
               all / rounds, handled, inside, alone);
        assert_true(inside > 5 || getenv("STOOK_DEBUG")); /* its calls are longer */
    }
    sigaction(SIGTRAP, &old, NULL);
}

#endif

int main(void)
{
    if (stook_rcu_set_ops(&ops) != 0)
        return 1;
    return tests_run(NULL, NULL);
}
