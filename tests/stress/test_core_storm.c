/* SPDX-License-Identifier: MIT */
/*
 * Threads against caches of every kind: single and bulk calls, objects handed from thread to
 * thread through queues, shrink and reports running beside, short-lived caches made and destroyed.
 * Every object is owned by one thread at a time (a stamp in it says so), every count is exact at
 * the end, and check_all() finds nothing lost.  STOOK_TEST_ROUNDS=n for n times as long.
 */
#define MUST_FAILS abort()
#include "support/check.h"
#include "support/must.h"
#include "support/random.h"
#include "support/scale.h"
#include "support/test.h"

#include <stook/stook.h>

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

enum { THREADS = 8, CACHES = 6, HELD = 256, QUEUE = 64, BULK = 48, CALLS = 250000 };

struct kind {
    size_t size, align;
    unsigned flags, capacity;
    bool built;
};
static const struct kind kinds[CACHES] = {
    {8, 0, 0, 0, false},
    {24, 0, 0, 0, true},
    {64, 0, STOOK_CACHE_HWALIGN, 4, false},
    {256, 0, 0, 0, false},
    {1000, 0, STOOK_CACHE_NOSHEAF, 0, false},
    {20000, 4096, 0, 0, false},
};

static struct stook_cache *caches[CACHES];
static struct { /* alive objects a constructor has run on, and those that are out */
    _Atomic int64_t built, out;
} sums[CACHES];

/* A queue a receiver; entries are taken and left whole. */
static struct {
    _Atomic(void *) entry[QUEUE];
    _Atomic unsigned char cache[QUEUE];
} queues[THREADS];

static uint64_t calls_each;
static int null_fd;

static void built(void *object, void *arg)
{
    atomic_fetch_add(&sums[1].built, 1);
    memset((char *)object + 8, 0x5a, 16);
}

static void unbuilt(void *object, void *arg)
{
    atomic_fetch_sub(&sums[1].built, 1);
    for (int i = 8; i < 24; i++)
        MUST(((unsigned char *)object)[i] == 0x5a);
}

/* The first eight bytes name the owner; no other thread may write them meanwhile. */
static uint64_t stamp(unsigned thread, unsigned cache, const void *object)
{
    return ((uint64_t)(thread + 1) << 56 | (uint64_t)cache << 48) ^
           (uintptr_t)object * 0x9e3779b97f4a7c15u;
}

static void own(unsigned thread, unsigned cache, void *object)
{
    uint64_t s = stamp(thread, cache, object);

    memcpy(object, &s, sizeof(s));
}

static void check_owned(unsigned thread, unsigned cache, const void *object)
{
    uint64_t s;

    memcpy(&s, object, sizeof(s));
    MUST(s == stamp(thread, cache, object));
    if (kinds[cache].built)
        MUST(((const unsigned char *)object)[23] == 0x5a);
}

struct worker {
    unsigned id;
    uint64_t state;
    unsigned held[CACHES];
    void *object[CACHES][HELD];
    uint64_t calls;
};

static void got(struct worker *w, unsigned c, void *object)
{
    own(w->id, c, object);
    w->object[c][w->held[c]++] = object;
    atomic_fetch_add(&sums[c].out, 1);
}

static void *lose(struct worker *w, unsigned c)
{
    unsigned i = random_below(&w->state, w->held[c]);
    void *object = w->object[c][i];

    check_owned(w->id, c, object);
    w->object[c][i] = w->object[c][--w->held[c]];
    atomic_fetch_sub(&sums[c].out, 1);
    return object;
}

static void send(struct worker *w, unsigned c)
{
    unsigned to = random_below(&w->state, THREADS), at = random_below(&w->state, QUEUE);
    void *none = NULL, *object = lose(w, c);

    own(THREADS, c, object);
    atomic_fetch_add(&sums[c].out, 1);
    /* The kind is in the stamp of its entry; a busy entry means: keep it. */
    if (atomic_load(&queues[to].entry[at]) == NULL &&
        atomic_compare_exchange_strong(&queues[to].entry[at], &none,
                                       (void *)((uintptr_t)object | 1))) {
        atomic_store(&queues[to].cache[at], (unsigned char)c);
        atomic_store(&queues[to].entry[at], object);
        return;
    }
    atomic_fetch_sub(&sums[c].out, 1);
    got(w, c, object);
}

/* Takes what others sent and frees it, by its cache or by its address. */
static void receive(struct worker *w)
{
    for (unsigned i = 0; i < 4; i++) {
        unsigned at = random_below(&w->state, QUEUE), c;
        void *object = atomic_load(&queues[w->id].entry[at]);
        if (!object || ((uintptr_t)object & 1))
            continue;
        c = atomic_load(&queues[w->id].cache[at]);
        atomic_store(&queues[w->id].entry[at], NULL);
        check_owned(THREADS, c, object);
        atomic_fetch_sub(&sums[c].out, 1);
        if (i % 2)
            stook_free_any(object);
        else
            stook_free(caches[c], object);
    }
}

static void bulk(struct worker *w, unsigned c)
{
    unsigned n = 1 + random_below(&w->state, BULK);
    void *objects[2 * BULK];

    if (w->held[c] + n <= HELD) {
        MUST(stook_alloc_bulk(caches[c], 0, n, objects) == 0);
        for (unsigned i = 0; i < n; i++)
            got(w, c, objects[i]);
    } else {
        unsigned k = 0;
        for (unsigned i = 0; i < n; i++) {
            objects[k++] = lose(w, c);
            if (i % 7 == 0)
                objects[k++] = NULL;
        }
        stook_free_bulk(caches[c], k, objects);
    }
}

static void short_life(void)
{
    struct stook_cache *cache = stook_cache_create("short", 120, NULL);
    void *objects[BULK];

    MUST(cache);
    MUST(stook_alloc_bulk(cache, 0, BULK, objects) == 0);
    stook_free_bulk(cache, BULK, objects);
    MUST(stook_cache_destroy(cache) == 0);
}

static void *work(void *arg)
{
    struct worker *w = arg;

    while (w->calls < calls_each) {
        for (unsigned i = 0; i < 64; i++, w->calls++) {
            unsigned c = random_below(&w->state, CACHES), what = random_below(&w->state, 100);
            if (what < 40 && w->held[c] < HELD) {
                unsigned flags = what < 4 && !kinds[c].built ? STOOK_ZERO : 0;
                void *object = stook_alloc(caches[c], flags);
                MUST(object);
                for (unsigned k = 0; flags && k < kinds[c].size; k++)
                    MUST(((char *)object)[k] == 0);
                got(w, c, object);
            } else if (what < 70 && w->held[c] > 0) {
                stook_free(caches[c], lose(w, c));
            } else if (what < 88 && w->held[c] > 0) {
                send(w, c);
            } else if (what < 94) {
                bulk(w, c);
            } else {
                receive(w);
            }
        }
        if (w->calls % 8192 == 0)
            short_life();
        if (w->id == 0 && w->calls % 2048 == 0)
            (void)stook_cache_shrink(caches[w->calls / 2048 % CACHES]);
#ifndef STOOK_CORE
        if (w->id == 1 && w->calls % 2048 == 0)
            MUST(stook_report(null_fd, w->calls / 2048 % 2) == 0);
#endif
    }
    return NULL;
}

static size_t collect(struct worker *workers, struct check_object *list)
{
    size_t n = 0;

    for (unsigned t = 0; t < THREADS; t++) {
        for (unsigned c = 0; c < CACHES; c++)
            for (unsigned i = 0; i < workers[t].held[c]; i++) {
                check_owned(t, c, workers[t].object[c][i]);
                list[n++] = (struct check_object){caches[c], workers[t].object[c][i]};
            }
        for (unsigned i = 0; i < QUEUE; i++)
            if (atomic_load(&queues[t].entry[i]))
                list[n++] = (struct check_object){caches[atomic_load(&queues[t].cache[i])],
                                                  atomic_load(&queues[t].entry[i])};
    }
    return n;
}

TEST(storm)
{
    static struct worker workers[THREADS];
    static struct check_object list[THREADS * (CACHES * HELD + QUEUE)];
    pthread_t thread[THREADS];
    int64_t out = 0;
    uint64_t calls = 0;
    size_t n;

    null_fd = open("/dev/null", O_WRONLY);
    calls_each = scaled(CALLS);
    for (unsigned c = 0; c < CACHES; c++) {
        struct stook_cache_args args = {.size = sizeof(args),
                                        .align = kinds[c].align,
                                        .flags = kinds[c].flags,
                                        .sheaf_capacity = kinds[c].capacity,
                                        .ctor = kinds[c].built ? built : NULL,
                                        .dtor = kinds[c].built ? unbuilt : NULL};
        caches[c] = stook_cache_create("storm", kinds[c].size, &args);
        assert_non_null(caches[c]);
    }
    for (unsigned t = 0; t < THREADS; t++) {
        workers[t] = (struct worker){.id = t, .state = t + 1};
        assert_int_equal(pthread_create(&thread[t], NULL, work, &workers[t]), 0);
    }
    for (unsigned t = 0; t < THREADS; t++) {
        pthread_join(thread[t], NULL);
        calls += workers[t].calls;
    }
    n = collect(workers, list);
    for (unsigned c = 0; c < CACHES; c++)
        out += atomic_load(&sums[c].out);
    assert_int_equal(out, n);
    check_all(list, n);
    for (size_t i = 0; i < n; i++)
        stook_free(list[i].cache, list[i].object);
    check_all(NULL, 0);
    for (unsigned c = 0; c < CACHES; c++)
        assert_int_equal(stook_cache_destroy(caches[c]), 0);
    check_all(NULL, 0);
    assert_int_equal(atomic_load(&sums[1].built), 0);
    printf("%llu calls, %zu objects out at the end\n", (unsigned long long)calls, n);
    assert_true(calls >= THREADS * calls_each);
}
