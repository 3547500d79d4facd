/* SPDX-License-Identifier: MIT */
/* debug: no */
/* needs: whole native */
/* timeout: 120 */
/*
 * A handler between any two instructions of a call on a pool whose cache has run out (an arena of 32 MiB).  The
 * thread is single-stepped.  At every STRIDE-th step the handler allocates objects of the same pool, or frees some.
 * This is repeated from each of the first steps on (of calls that reclaim, and under sanitizers: from some).  After
 * each call the reserve's counts and words agree, and every object is in one place.
 */
#include "reserve/pool.h"

#include "base/context.h"
#include "percpu/rows.h"
#include "page/zone.h"
#include "support/environment.h"
#include "support/scale.h"
#include "support/test.h"

#include <stook/reserve.h>
#include <stook/stook.h>

#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>

#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__)
#include "support/single_step.h"

enum { SIZE = 8192, MOST = 80000, RESERVE = 4, HELD = 16, STRIDE = 7, DENSE = 120 };

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
    void *object = stook_pool_alloc(pool, flags, NULL);

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
        take(STOOK_SIGNAL_SAFE);
        break;
    case 1:
        give();
        break;
    case 2:
        take(STOOK_SIGNAL_SAFE);
        give();
        break;
    default:
        give();
        give();
        take(STOOK_SIGNAL_SAFE);
    }
}

/* ---- somebody who waits --------------------------------------------------------------------- */

static unsigned at_step;
static sem_t go;
static _Atomic(void *) arrived;
static atomic_bool stop;

static void *waiter(void *unused)
{
    for (;;) {
        sem_wait(&go);
        if (atomic_load(&stop))
            return NULL;
        atomic_store(&arrived, stook_pool_alloc(pool, STOOK_WAIT, NULL));
    }
}

/* Comes back when the other one sleeps, or has found what there was; or waits for a lock of ours. */
static void let_wait(void)
{
    sem_post(&go);
    for (int i = 0; i < 20 && (uint32_t)atomic_load(&pool->waiters) == 0 && !atomic_load(&arrived);
         i++)
        usleep(500);
    if (!atomic_load(&arrived))
        usleep(1000);
}

static void on_step(int signal, siginfo_t *info, void *ucontext)
{
    if (done)
        return;
    if (at_step > 0) { /* once, and then at full speed */
        if (++steps == at_step) {
            single_step_end(ucontext);
            let_wait();
        }
        return;
    }
    if (++steps % STRIDE != phase)
        return;
    handled++;
    inside += context_tls.depth > 0;
    handle();
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
    result = stook_pool_alloc(pool, STOOK_SIGNAL_SAFE, NULL);
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
    if (n != pool->count || n != pool->places || pool_out(pool) != nheld)
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
    for (void *object; (object = stook_alloc(cache, STOOK_NORECLAIM)) != NULL;) {
        assert_true(ntaken < MOST);
        taken[ntaken++] = object;
    }
    while (nheld < out)
        take(STOOK_NORECLAIM);
    assert_int_equal(stook_pool_available(pool), RESERVE - out);
}

TEST(every_step)
{
    struct stook_cache_args args = {.size = sizeof(args), .flags = STOOK_CACHE_NOSHEAF};
    struct sigaction act = {.sa_sigaction = on_step, .sa_flags = SA_SIGINFO}, old;

    cache = stook_cache_create("stepped", SIZE, &args);
    pool = stook_pool_create(cache, RESERVE);
    assert_true(cache && pool);
    sigaction(SIGTRAP, &act, &old);
    for (unsigned c = 0; c < sizeof(calls) / sizeof(calls[0]); c++) {
        unsigned most = 0;
        handled = inside = 0;
        for (action = 0; action < 4; action++) {
            unsigned next = (calls[c].call == do_resize ? 5 : 1) * SCALE_SLOWNESS;
            for (phase = 0; phase < STRIDE; phase += next) {
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

/*
 * One object, and a free of it that is interrupted at each of its first instructions, where the fast path is, and
 * then at some.  There another thread tries to allocate, finds no object anywhere and sleeps.  The free must wake it.
 */
TEST(waiter_at_every_step)
{
    struct sigaction act = {.sa_sigaction = on_step, .sa_flags = SA_SIGINFO}, old;
    pthread_t thread;
    unsigned slept = 0;

    pool_nap = 0; /* he does not look again by himself */
    cache = stook_cache_create("stepped", SIZE, NULL);
    sigaction(SIGTRAP, &act, &old);
    sem_init(&go, 0, 0);
    for (unsigned min = 0; min < 2; min++) {
        bool finished = false;
        pool = stook_pool_create(cache, min);
        for (void *object; (object = stook_alloc(cache, STOOK_WAIT)) != NULL;) {
            assert_true(ntaken < MOST);
            taken[ntaken++] = object;
        }
        /* With a reserve of 1: that one is out, and so is its taker's wish to free it. */
        held[0] = min == 0 ? taken[--ntaken] : stook_pool_alloc(pool, STOOK_NORECLAIM, NULL);
        if (min == 0) /* as if it were the pool's */
            rows_add(pool_counter(pool, POOL_ALLOCATED), ROWS_LINE, 1);
        atomic_store(&stop, false);
        pthread_create(&thread, NULL, waiter, NULL);
        for (at_step = 1; !finished; at_step += at_step < DENSE ? 1 : 41) {
            atomic_store(&arrived, NULL);
            steps = 0;
            done = false;
            single_step(true);
            stook_pool_free(pool, held[0]);
            done = true;
            single_step(false);
            finished = steps < at_step;
            slept += (uint32_t)atomic_load(&pool->waiters) > 0;
            if (finished)
                sem_post(&go);
            while (!atomic_load(&arrived))
                sched_yield();
            held[0] = atomic_load(&arrived);
            if (finished && slept == 0) { /* he never ran in time: from the start */
                finished = false;
                at_step = 0;
            }
        }
        printf("reserve of %u: %u instructions of a free\n", min, at_step);
        assert_true(at_step > 60);
        stook_pool_free(pool, held[0]);
        atomic_store(&stop, true);
        sem_post(&go);
        pthread_join(thread, NULL);
        assert_int_equal(stook_pool_destroy(pool), 0);
        while (ntaken > 0)
            stook_free(cache, taken[--ntaken]);
        (void)stook_cache_shrink(cache);
    }
    assert_true(slept > 0);
    at_step = 0;
    sigaction(SIGTRAP, &old, NULL);
    assert_int_equal(stook_cache_destroy(cache), 0);
}

#endif

TESTS_WITH_SETTING("STOOK_ARENA", "32M")
