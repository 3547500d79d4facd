/* SPDX-License-Identifier: MIT */
/* needs: native */
/* timeout: 120 */
/*
 * A handler between any two instructions of a call on a pool whose cache has run out (an arena of
 * 32 MiB): the thread is single-stepped, and at every STRIDE-th step, from each of the first ones on
 * (of what reclaims: from some), the handler takes objects of the same pool, or gives some back.  After each call the reserve's
 * counts and words agree, and every object is in one place.
 */
#include "reserve/pool.h"

#include "base/context.h"
#include "os/counter.h"
#include "page/zone.h"

#include <stook/stook.h>

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <ucontext.h>
#include <unistd.h>

#include <cmocka.h>

#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__)

enum { SIZE = 8192, MOST = 8000, RESERVE = 4, HELD = 16, STRIDE = 13 };

static struct stook_cache *cache;
static struct stook_pool *pool;
static void *taken[MOST];
static size_t ntaken;

/* What the interrupted code and the handlers hold of the pool. */
static void *held[HELD];
static unsigned nheld;

static unsigned steps, phase, handled, inside;
static volatile bool done;
static int action;

static void take(unsigned flags)
{
    void *object = stook_pool_alloc(pool, flags);

    if (object)
        held[nheld++] = object;
}

static void give(void)
{
    if (nheld > 0)
        stook_pool_free(pool, held[--nheld]);
}

static void handle(void)
{
    switch (action) {
    case 0:
        take(STOOK_NOSPIN);
        break;
    case 1:
        give();
        break;
    case 2:
        take(STOOK_NOSPIN);
        give();
        break;
    default:
        give();
        give();
        take(STOOK_NOSPIN);
    }
}

static void on_step(int signal, siginfo_t *info, void *ucontext)
{
    (void)signal;
    (void)info;
    (void)ucontext;
    if (done || ++steps % STRIDE != phase)
        return;
    handled++;
    inside += context_tls.depth > 0;
    handle();
}

static void single_step(bool on)
{
    uint64_t flags = __builtin_ia32_readeflags_u64();

    __builtin_ia32_writeeflags_u64(on ? flags | 0x100 : flags & ~(uint64_t)0x100);
}

/* ---- the calls ------------------------------------------------------------------------------ */

/* The arena refuses at once, as if others had its locks: else most steps would be its. */
static void lock_arena(bool held_by_others)
{
    for (unsigned i = 0; i < pagemap.zones; i++)
        atomic_store(&zone_all.zone[i].lock.word, held_by_others);
}

static void *result, *to_free;

static void do_alloc(void)
{
    result = stook_pool_alloc(pool, STOOK_NOSPIN);
}

static void do_free(void)
{
    stook_pool_free(pool, to_free);
}

static void do_resize(void)
{
    (void)stook_pool_resize(pool, RESERVE - 2);
}

static const struct {
    const char *name;
    void (*call)(void);
    unsigned out; /* objects out before it */
} calls[] = {
    {"alloc from the reserve", do_alloc, 2}, {"alloc of its last", do_alloc, 3},
    {"alloc from none", do_alloc, 4},        {"free to the reserve", do_free, 3},
    {"free of its last", do_free, 1},        {"resize", do_resize, 1},
};

static void check(unsigned call)
{
    unsigned n = 0;

    for (unsigned i = 0; i < POOL_FIRST; i++) {
        void *object = atomic_load(&pool->first[i]);
        n += object != NULL;
        for (unsigned k = 0; object && k < nheld; k++)
            assert_ptr_not_equal(object, held[k]);
        for (unsigned k = 0; object && k < i; k++)
            assert_ptr_not_equal(object, atomic_load(&pool->first[k]));
    }
    for (unsigned k = 0; k < nheld; k++)
        for (unsigned i = 0; i < k; i++)
            assert_ptr_not_equal(held[i], held[k]);
    if (n != pool->count || n != pool->places || counter_left(pool->out) != nheld)
        fail_msg("%s, action %d, phase %u: %u objects, counted %u in %u places, %u out",
                 calls[call].name, action, phase, n, pool->count, pool->places, nheld);
    /* Nothing left the pool but what a smaller one has too much, and what its cache had for it. */
    assert_true(n <= RESERVE);
}

/* The reserve is full and all else is taken, then `out` objects are out. */
static void prepare(unsigned out)
{
    while (nheld > 0)
        give();
    for (int tries = 0; stook_pool_available(pool) != RESERVE && tries < 10; tries++) {
        while (stook_pool_available(pool) < RESERVE && ntaken > 0) {
            stook_free(cache, taken[--ntaken]);
            assert_int_equal(stook_pool_resize(pool, RESERVE), 0);
        }
    }
    if (pool->min != RESERVE)
        assert_int_equal(stook_pool_resize(pool, RESERVE), 0);
    for (void *object; (object = stook_alloc(cache, STOOK_NOWAIT)) != NULL;) {
        assert_true(ntaken < MOST);
        taken[ntaken++] = object;
    }
    while (nheld < out)
        take(STOOK_NOWAIT);
    assert_int_equal(stook_pool_available(pool), RESERVE - out);
}

static void every_step(void **unused)
{
    struct stook_cache_args args = {.size = sizeof(args), .flags = STOOK_CACHE_NOSHEAF};
    struct sigaction act = {.sa_sigaction = on_step, .sa_flags = SA_SIGINFO}, old;

    (void)unused;
    cache = stook_cache_create("stepped", SIZE, &args);
    pool = stook_pool_create(cache, RESERVE);
    assert_true(cache && pool);
    sigaction(SIGTRAP, &act, &old);
    for (unsigned c = 0; c < sizeof(calls) / sizeof(calls[0]); c++) {
        unsigned most = 0;
        handled = inside = 0;
        for (action = 0; action < 4; action++) {
            for (phase = 0; phase < STRIDE; phase += calls[c].call == do_resize ? 6 : 1) {
                prepare(calls[c].out);
                if (calls[c].call == do_free)
                    to_free = held[--nheld];
                result = NULL;
                steps = 0;
                done = false;
                lock_arena(calls[c].call == do_alloc);
                single_step(true);
                calls[c].call();
                done = true;
                single_step(false);
                lock_arena(false);
                if (result)
                    held[nheld++] = result;
                check(c);
                most = steps > most ? steps : most;
            }
        }
        printf("%s: %u instructions, %u handlers, %u inside the library\n", calls[c].name, most,
               handled, inside);
        assert_true(inside > 20);
    }
    sigaction(SIGTRAP, &old, NULL);
    while (nheld > 0)
        give();
    assert_int_equal(stook_pool_destroy(pool), 0);
    while (ntaken > 0)
        stook_free(cache, taken[--ntaken]);
    assert_int_equal(stook_cache_destroy(cache), 0);
}

#else
static void every_step(void **unused)
{
    (void)unused;
    skip();
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_step)};

    if (!getenv("STOOK_ARENA")) { /* read before main(): once more, with little */
        setenv("STOOK_ARENA", "32M", 1);
        execl("/proc/self/exe", "test_pool_steps", NULL);
        return 1;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
