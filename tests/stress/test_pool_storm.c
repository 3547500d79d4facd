/* SPDX-License-Identifier: MIT */
/* needs: whole native */
/* timeout: 200 */
/*
 * Pools where memory has run out (an arena of 32 MiB).  Threads allocate, wait and free, so each object goes from
 * waiter to waiter.  Other threads try without waiting, and one resizes.  Timers interrupt all of them with handlers
 * that use the same pool, and the process forks meanwhile.  No thread tries again without a wake-up (pool_nap is 0),
 * so one lost wake-up is a hang.  Every object carries its owner, so that none is allocated twice.  At the end
 * counts, array and caches agree, so none is lost.
 */
#include "reserve/pool.h"

#include "percpu/rows.h"
#include "support/check.h"
#include "support/libc_names.h"
#include "support/random.h"
#include "support/scale.h"
#include "support/test.h"

#include <stook/reserve.h>
#include <stook/stook.h>

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <time.h>

enum { SIZE = 8192, MOST = 80000, THREADS = 8, RESERVE = 6, ROUNDS = 4000, HANDLER_HELD = 2 };

struct object {
    _Atomic uint32_t owner; /* 0: none */
};

static struct stook_cache *cache;
static struct stook_pool *pool;
static void *taken[MOST];
static size_t ntaken;
static atomic_bool stop;
static atomic_uint errors, finished;
static _Atomic uint64_t waits, refusals, signals;

struct thread {
    pthread_t thread;
    uint32_t number;
    uint64_t random, handler_random;
    void *handler_held[HANDLER_HELD];
};
static struct thread threads[THREADS];
static __thread struct thread *self;

static void *own(void *object, uint32_t number)
{
    if (object && atomic_exchange(&((struct object *)object)->owner, number) != 0)
        atomic_fetch_add(&errors, 1);
    return object;
}

static void give(void *object, uint32_t number)
{
    if (atomic_exchange(&((struct object *)object)->owner, 0) != number)
        atomic_fetch_add(&errors, 1);
    stook_pool_free(pool, object);
}

static void construct(void *object, void *arg)
{
    atomic_init(&((struct object *)object)->owner, 0);
}

/* A thread outside of the storm has all memory except the reserve. */
static void start(unsigned reserve)
{
    struct stook_cache_args args = {.size = sizeof(args), .ctor = construct, .sheaf_capacity = 4};

    pool_nap = 0;
    atomic_store(&stop, false);
    atomic_store(&finished, 0);
    cache = stook_cache_create("stormed", SIZE, &args);
    pool = stook_pool_create(cache, reserve);
    assert_true(cache && pool);
    for (int misses = 0; misses < 6; misses++) {
        void *object = stook_alloc(cache, 0);
        if (object) {
            assert_true(ntaken < MOST);
            taken[ntaken++] = object;
            misses = 0;
        }
    }
}

static void end(unsigned reserve)
{
    struct check_object *held = calloc(MOST, sizeof(*held));
    size_t n = 0;

    assert_int_equal(atomic_load(&errors), 0);
    assert_int_equal(pool_out(pool), 0);
    assert_int_equal((uint32_t)atomic_load(&pool->waiters), 0);
    for (unsigned i = 0; i < POOL_FIRST; i++) {
        void *object = atomic_load(&pool->first[i]);
        if (object)
            held[n++] = (struct check_object){cache, object};
    }
    assert_int_equal(n, pool->count);
    assert_int_equal(n, pool->places);
    if (reserve > 0)
        assert_int_equal(n, reserve);
    for (size_t i = 0; i < ntaken; i++)
        held[n++] = (struct check_object){cache, taken[i]};
    check_all(held, n);
    free(held);
    assert_int_equal(stook_pool_destroy(pool), 0);
    while (ntaken > 0)
        stook_free(cache, taken[--ntaken]);
    assert_int_equal(stook_cache_destroy(cache), 0);
}

/* ---- handlers ------------------------------------------------------------------------------- */

static void handler(int signal)
{
    int saved = errno;
    uint64_t r;

    if (!self)
        return;
    atomic_fetch_add(&signals, 1);
    r = random_next(&self->handler_random);
    for (unsigned i = 0; i < 1 + (r & 3); i++) {
        void **held = &self->handler_held[r >> (8 + i) & (HANDLER_HELD - 1)];
        if (*held) {
            give(*held, THREADS + self->number);
            *held = NULL;
        } else {
            *held = own(stook_pool_alloc(pool, STOOK_SIGNAL_SAFE, NULL), THREADS + self->number);
        }
    }
    errno = saved;
}

/* What the handler keeps, a waiter may wait for: it is given back by the next but a few. */
static void deferred_handler(void)
{
    sigset_t set, old;

    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &set, &old);
    for (unsigned i = 0; i < HANDLER_HELD; i++)
        if (self->handler_held[i]) {
            give(self->handler_held[i], THREADS + self->number);
            self->handler_held[i] = NULL;
        }
    pthread_sigmask(SIG_SETMASK, &old, NULL);
}

/* ---- the storm ------------------------------------------------------------------------------ */

static bool timers;

static void *worker(void *arg)
{
    struct thread *t = arg;
    struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGUSR1};
    struct itimerspec often = {{0, 90000 + 3000 * t->number}, {0, 50000}};
    timer_t timer;

    self = t;
    event.sigev_notify_thread_id = (pid_t)syscall(SYS_gettid);
    if (timers && (timer_create(CLOCK_MONOTONIC, &event, &timer) != 0 ||
                   timer_settime(timer, 0, &often, NULL) != 0))
        atomic_fetch_add(&errors, 1);
    for (unsigned round = 0; round < scaled(ROUNDS) || (timers && atomic_load(&signals) == 0);
         round++) {
        uint64_t r = random_next(&t->random);
        /* One at a time with WAIT: a thread that holds one and waits for another may wait for itself. */
        void *object = own(stook_pool_alloc(pool, STOOK_WAIT, NULL), t->number), *more = NULL;
        if (!object) {
            atomic_fetch_add(&errors, 1);
            break;
        }
        if (r & 1) {
            more = own(stook_pool_alloc(pool, STOOK_NORECLAIM, NULL), t->number);
            atomic_fetch_add_explicit(more ? &waits : &refusals, 1, memory_order_relaxed);
        }
        if ((r >> 8 & 7) == 0)
            sched_yield();
        if (more)
            give(more, t->number);
        give(object, t->number);
        if (timers && (r >> 16 & 7) == 0)
            deferred_handler();
    }
    if (timers)
        timer_delete(timer);
    deferred_handler();
    atomic_fetch_add(&finished, 1);
    return NULL;
}

static void run_workers(void)
{
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};

    assert_int_equal(sigaction(SIGUSR1, &action, NULL), 0);
    for (unsigned i = 0; i < THREADS; i++) {
        memset(&threads[i], 0, sizeof(threads[i]));
        threads[i].number = i + 1;
        threads[i].random = 0x9e3779b97f4a7c15u * (i + 1);
        threads[i].handler_random = ~threads[i].random;
        assert_int_equal(pthread_create(&threads[i].thread, NULL, worker, &threads[i]), 0);
    }
}

static void join_workers(void)
{
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(threads[i].thread, NULL);
    print_message("%s: %u rounds of %u threads; without waiting %llu got one, %llu did not; %llu "
                  "signals\n",
                  stook_mode(NULL), ROUNDS, THREADS, (unsigned long long)atomic_load(&waits),
                  (unsigned long long)atomic_load(&refusals),
                  (unsigned long long)atomic_load(&signals));
}

/* Fewer objects than threads: all wait for each other all the time. */
TEST(few_objects)
{
    for (unsigned reserve = 0; reserve <= 3; reserve++) {
        start(reserve);
        if (reserve == 0) /* one object for all, of the cache: no reserve keeps it */
            stook_free(cache, taken[--ntaken]);
        run_workers();
        join_workers();
        if (reserve == 0)
            (void)stook_cache_shrink(cache);
        end(reserve);
    }
}

TEST(with_handlers)
{
    timers = true;
    start(RESERVE);
    run_workers();
    join_workers();
    timers = false;
    assert_true(atomic_load(&signals) > 0);
    end(RESERVE);
}

/* Never below what the workers need to go on. */
TEST(with_resizes)
{
    uint64_t random = 4711;
    unsigned resizes = 0;

    start(RESERVE);
    run_workers();
    while (atomic_load(&finished) < THREADS) {
        assert_int_equal(stook_pool_resize(pool, 1 + random_next(&random) % 12), 0);
        resizes++;
        if (stook_pool_available(pool) > 12 + THREADS)
            atomic_fetch_add(&errors, 1);
        sched_yield();
    }
    join_workers();
    print_message("%u resizes\n", resizes);
    while (ntaken > 100) /* memory to fill it with */
        stook_free(cache, taken[--ntaken]);
    assert_int_equal(stook_pool_resize(pool, RESERVE), 0);
    end(RESERVE);
}

/* ---- forks ---------------------------------------------------------------------------------- */

static int child_body(void *arg)
{
    void *object[2 * RESERVE];
    unsigned n = 0, have;

    for (have = 0; have < 2 * RESERVE; have++) {
        object[have] = stook_pool_alloc(pool, STOOK_NORECLAIM, NULL);
        if (!object[have])
            break;
    }
    /* The other threads' objects are lost; what there was in the reserve is there. */
    if (stook_pool_available(pool) != 0)
        return 1;
    if (ntaken < 2 * RESERVE)
        return 2;
    while (n < RESERVE + 2) /* objects are objects */
        stook_pool_free(pool, taken[n++]);
    if (stook_pool_available(pool) != RESERVE)
        return 3;
    while (have > 0)
        stook_pool_free(pool, object[--have]);
    if (stook_pool_available(pool) != RESERVE)
        return 4;
    for (n = 0; n < RESERVE; n++)
        if (!stook_pool_alloc(pool, STOOK_WAIT, NULL))
            return 5;
    return 0;
}

TEST(with_forks)
{
    unsigned forks = 0;

    start(RESERVE);
    run_workers();
    do {
        in_child(child_body, NULL);
        forks++;
    } while (atomic_load(&finished) < THREADS);
    join_workers();
    print_message("%u forks\n", forks);
    end(RESERVE);
}

int main(void)
{
    if (!getenv("STOOK_ARENA")) { /* read before main(): once more, with little */
        setenv("STOOK_ARENA", "32M", 1);
#ifdef TOPOLOGY
        setenv("STOOK_TOPOLOGY", TOPOLOGY, 1);
#endif
        execl("/proc/self/exe", "test_pool_storm", NULL);
        return 1;
    }
    return tests_run(NULL, NULL);
}
