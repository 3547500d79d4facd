/* SPDX-License-Identifier: MIT */
/* debug: no */
/*
 * Bulk calls against single calls.  Threads allocate and free 1 to 300 objects at a time, with NULLs between and
 * in any order, and pass objects to each other.  Handlers interrupt them and do the same, while another thread
 * shrinks the caches.  Every object names its owner at both ends: none is allocated twice, none is lost.
 *
 * Another storm takes hundreds of objects before it returns them, so that refills bring more
 * than a sheaf's capacity, and such sheaves are drained, flushed and put into barns meanwhile.
 * STOOK_TEST_ROUNDS=n for n times as long.
 */
#define MUST_FAILS abort()
#include "sheaf/sheaf.h"
#include "support/check.h"
#include "support/must.h"
#include "support/random.h"
#include "support/scale.h"
#include "support/test.h"

#include <stook/inline.h>

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <time.h>

enum {
    THREADS = 5,
    CACHES = 6,
    HELD = 1500, /* of a cache and thread */
    CALLED = 64, /* of a cache and a thread's handler */
    BULK = 300,
    EXCHANGE = 64, /* objects of a cache on their way from thread to thread */
    TURNS = 20000, /* of a thread; a turn that only allocates is some 20 times as long */
    HANDLED = 5,   /* handlers of a thread at least */
};

static const struct kind {
    size_t size;
    unsigned flags, capacity;
} kinds[CACHES] = {
    {16, 0, 0},
    {64, STOOK_CACHE_LINK_INSIDE, 0},
    {256, STOOK_CACHE_RANDOM, 0},
    {1000, STOOK_CACHE_NOSHEAF, 0},
    {128, STOOK_CACHE_RANDOM | STOOK_CACHE_LINK_INSIDE, 5},
    {3000, 0, 0},
};

static struct stook_cache *caches[CACHES];
static _Atomic(void *) exchange[CACHES][EXCHANGE];
static atomic_bool stop;
static atomic_uint finished;

struct worker {
    unsigned id;
    bool taking; /* mostly: refill follows refill */
    uint64_t state, handler_state, turns, calls, refused;
    volatile uint64_t handled;
    _Atomic bool runs;
    unsigned held[CACHES], called[CACHES];
    void *object[CACHES][HELD], *of_handler[CACHES][CALLED];
};
static struct worker workers[THREADS];
static __thread struct worker *self;

/* ---- owners --------------------------------------------------------------------------------- */

/* At both ends of an object; of a free one a link may lie at the start. */
static uint64_t stamp(unsigned owner, const void *object)
{
    return (uint64_t)(owner + 1) << 56 ^ (uintptr_t)object * 0x9e3779b97f4a7c15u;
}

static void own(unsigned owner, unsigned cache, void *object)
{
    uint64_t s = stamp(owner, object);

    MUST(object && (uintptr_t)object % 16 == 0);
    memcpy(object, &s, sizeof(s));
    memcpy((char *)object + kinds[cache].size - sizeof(s), &s, sizeof(s));
}

static void *disown(unsigned owner, unsigned cache, void *object)
{
    uint64_t s = stamp(owner, object);

    MUST(memcmp(object, &s, sizeof(s)) == 0);
    MUST(memcmp((char *)object + kinds[cache].size - sizeof(s), &s, sizeof(s)) == 0);
    return object;
}

/* ---- handlers ------------------------------------------------------------------------------- */

static void handler(int signal)
{
    struct worker *w = self;
    int saved = errno;
    void *objects[2 * CALLED];
    unsigned c, n, k = 0, owner;

    if (!w)
        return;
    c = random_below(&w->handler_state, CACHES);
    n = 1 + random_below(&w->handler_state, CALLED);
    owner = THREADS + w->id;
    w->handled++;
    if (w->called[c] + n <= CALLED) {
        if (stook_alloc_bulk(caches[c], STOOK_SIGNAL_SAFE, n, objects) == 0) {
            for (unsigned i = 0; i < n; i++) {
                own(owner, c, objects[i]);
                w->of_handler[c][w->called[c]++] = objects[i];
            }
        } else {
            MUST(errno == ENOMEM);
            w->refused++;
        }
    } else {
        while (w->called[c] > 0) {
            objects[k++] = disown(owner, c, w->of_handler[c][--w->called[c]]);
            if (random_below(&w->handler_state, 8) == 0)
                objects[k++] = NULL;
        }
        stook_free_bulk(caches[c], k, objects);
    }
    errno = saved;
}

/* ---- workers -------------------------------------------------------------------------------- */

static void take(struct worker *w, unsigned c, unsigned n)
{
    void **to = &w->object[c][w->held[c]];

    if (n > HELD - w->held[c])
        n = HELD - w->held[c];
    if (random_below(&w->state, 3) > 0) {
        MUST(stook_alloc_bulk(caches[c], 0, n, to) == 0);
    } else {
        for (unsigned i = 0; i < n; i++)
            to[i] = i % 2 ? stook_alloc_inline(caches[c], 0) : stook_alloc(caches[c], 0);
    }
    for (unsigned i = 0; i < n; i++)
        own(w->id, c, to[i]);
    w->held[c] += n;
}

/* The last n, or any, with or without NULLs. */
static void give(struct worker *w, unsigned c, unsigned n)
{
    void *objects[2 * BULK];
    unsigned k = 0, nulls = random_below(&w->state, 4), kind = random_below(&w->state, 4);

    if (n > w->held[c])
        n = w->held[c];
    for (unsigned i = 0; i < n; i++) {
        unsigned at = kind ? w->held[c] - 1 : random_below(&w->state, w->held[c]);
        void *object = disown(w->id, c, w->object[c][at]);
        w->object[c][at] = w->object[c][--w->held[c]];
        if (kind == 1) { /* one by one */
            if (i % 3 == 0)
                stook_free_any(object);
            else if (i % 3 == 1)
                stook_free(caches[c], object);
            else
                stook_free_inline(caches[c], object);
            continue;
        }
        if (nulls == 3 && random_below(&w->state, 4) == 0)
            objects[k++] = NULL;
        objects[k++] = object;
    }
    stook_free_bulk(caches[c], k, objects);
}

static void change_hands(struct worker *w, unsigned c)
{
    for (unsigned i = 0; i < 16 && w->held[c] > 0; i++) {
        unsigned at = random_below(&w->state, EXCHANGE);
        void *object = disown(w->id, c, w->object[c][--w->held[c]]);
        own(2 * THREADS, c, object);
        object = atomic_exchange(&exchange[c][at], object);
        if (object) {
            own(w->id, c, disown(2 * THREADS, c, object));
            w->object[c][w->held[c]++] = object;
        }
    }
}

static void *work(void *arg)
{
    struct worker *w = arg;

    self = w;
    atomic_store(&w->runs, true);
    while (w->calls < w->turns || w->handled < HANDLED) {
        unsigned c = random_below(&w->state, CACHES), n = 1 + random_below(&w->state, BULK);
        w->calls++;
        if (w->taking) {
            /* Nothing but taking, small and large, so that refill follows refill. */
            while (w->held[c] < HELD)
                take(w, c, random_below(&w->state, 4) ? 1 + n % 40 : n);
            change_hands(w, c);
            while (w->held[c] > HELD / 4)
                give(w, c, n);
            continue;
        }
        switch (random_below(&w->state, 5)) {
        case 0:
        case 1:
            take(w, c, n);
            break;
        case 2:
        case 3:
            give(w, c, n);
            break;
        default:
            change_hands(w, c);
        }
    }
    /* No handler after this: what it holds is counted. */
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, NULL);
    atomic_store(&w->runs, false);
    atomic_fetch_add(&finished, 1);
    return NULL;
}

static void *shrink(void *arg)
{
    const struct timespec moment = {0, 300000};
    int null_fd = open("/dev/null", O_WRONLY);

    for (unsigned i = 0; !atomic_load(&stop); i++) {
        (void)stook_cache_shrink(caches[i % CACHES]);
#ifndef STOOK_CORE
        if (i % 16 == 0)
            MUST(stook_report(null_fd, STOOK_REPORT_JSON) == 0);
#endif
        nanosleep(&moment, NULL);
    }
    close(null_fd);
    return NULL;
}

static size_t collect(struct check_object *list)
{
    size_t n = 0;

    for (unsigned c = 0; c < CACHES; c++) {
        for (unsigned t = 0; t < THREADS; t++) {
            struct worker *w = &workers[t];
            for (unsigned i = 0; i < w->held[c]; i++)
                list[n++] = (struct check_object){caches[c], disown(t, c, w->object[c][i])};
            for (unsigned i = 0; i < w->called[c]; i++)
                list[n++] =
                    (struct check_object){caches[c], disown(THREADS + t, c, w->of_handler[c][i])};
        }
        for (unsigned i = 0; i < EXCHANGE; i++) {
            void *object = atomic_exchange(&exchange[c][i], NULL);
            if (object)
                list[n++] = (struct check_object){caches[c], disown(2 * THREADS, c, object)};
        }
    }
    return n;
}

/* Sheaves ever made that are larger than any capacity here asks for. */
static uint64_t large_sheaves(void)
{
    uint64_t made = 0;

    for (unsigned i = 5; i < SHEAF_CLASSES; i++)
        for (unsigned node = 0; node < topology.nodes; node++)
            made += sheaf_cache[i]->nodes[node].node.made;
    return made;
}

static void storm(bool taking)
{
    static struct check_object list[CACHES * (THREADS * (HELD + CALLED) + EXCHANGE)];
    const struct timespec moment = {0, 200000};
    uint64_t calls = 0, handled = 0, refused = 0;
    pthread_t thread[THREADS], shrinker;
    size_t n;

    for (unsigned c = 0; c < CACHES; c++) {
        struct stook_cache_args args = {
            .size = sizeof(args), .flags = kinds[c].flags, .sheaf_capacity = kinds[c].capacity};
        caches[c] = stook_cache_create("bulk-storm", kinds[c].size, &args);
        assert_non_null(caches[c]);
    }
    atomic_store(&stop, false);
    atomic_store(&finished, 0);
    memset(workers, 0, sizeof(workers));
    for (unsigned t = 0; t < THREADS; t++) {
        workers[t].id = t;
        workers[t].taking = taking;
        workers[t].turns = scaled(taking ? TURNS / 20 : TURNS);
        workers[t].state = 2 * t + 1;
        workers[t].handler_state = 2 * t + 2;
        assert_int_equal(pthread_create(&thread[t], NULL, work, &workers[t]), 0);
    }
    assert_int_equal(pthread_create(&shrinker, NULL, shrink, NULL), 0);
    for (unsigned t = 0; atomic_load(&finished) < THREADS; t = (t + 1) % THREADS) {
        if (atomic_load(&workers[t].runs))
            pthread_kill(thread[t], SIGUSR1);
        nanosleep(&moment, NULL);
    }
    atomic_store(&stop, true);
    pthread_join(shrinker, NULL);
    for (unsigned t = 0; t < THREADS; t++) {
        pthread_join(thread[t], NULL);
        calls += workers[t].calls;
        handled += workers[t].handled;
        refused += workers[t].refused;
    }
    n = collect(list);
    check_all(list, n);
    printf("%llu turns, %llu handlers, %llu of them were refused, %zu objects out at the end\n",
           (unsigned long long)calls, (unsigned long long)handled, (unsigned long long)refused, n);
    for (size_t i = 0; i < n; i++)
        stook_free(list[i].cache, list[i].object);
    check_all(NULL, 0);
    for (unsigned c = 0; c < CACHES; c++)
        assert_int_equal(stook_cache_destroy(caches[c]), 0);
    check_all(NULL, 0);
    assert_true(calls >= THREADS * workers[0].turns && handled >= THREADS * HANDLED);
}

/* First: it counts what was made. */
TEST(large_refills)
{
    assert_int_equal(large_sheaves(), 0);
    storm(true);
    assert_true(large_sheaves() > 0); /* they were there */
}

TEST(bulk_and_single)
{
    storm(false);
}

int main(void)
{
    signal(SIGUSR1, handler);
    return tests_run(NULL, NULL);
}
