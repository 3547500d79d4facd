/* SPDX-License-Identifier: MIT */
/* needs: whole */
/*
 * The counts of tags are exact after any sequence of calls, by threads, handlers and forked children.  A site's
 * live count is that of the objects that name it (stook_tag_of()), and its total is what was allocated there while
 * tags were on.  Objects of one site lie between those of others.  Tags are switched on while threads run.  Other
 * threads free the objects, one by one, in bulk and without the cache.  If tags are switched off in between, only
 * the live counts become inexact.
 */
#define STOOK_SITES /* file, function and line of every allocation */

#define MUST_FAILS abort()
#include "site/tag.h"
#include "slab/cache.h"

#include "support/must.h"
#include "support/random.h"
#include "support/scale.h"
#include "support/test.h"
#include "support/tagged.h"
#include "support/with.h"

#include <stook/reserve.h>
#include <stook/stook.h>
#include <stook/stat.h>

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

enum {
    SITES = 10,
    HANDLER = SITES - 1,
    SHEAF = HANDLER - 1,
    CACHES = 4,
    THREADS = 4,
    HELD = 600,
    BULK = 40
};

struct held {
    void *object;
    unsigned cache, site;
};

static struct stook_site sites[SITES];
static uint64_t
    sheaf_total; /* objects of SHEAF before this run: its site is an address, which all runs have */
static struct stook_cache *caches[CACHES];
static const size_t sizes[CACHES] = {24, 64, 200, 1000};

struct worker {
    uint64_t seed;
    struct held held[HELD];
    unsigned holding;
    uint64_t taken[CACHES][SITES]; /* objects, whether they were tagged or not */
};
static struct worker workers[THREADS];
static pthread_mutex_t exchange = PTHREAD_MUTEX_INITIALIZER;
static struct held passed[HELD]; /* from any thread to any other */
static unsigned passing;
static enum {
    STEADY,  /* tags are on all the time: every object has its site's */
    LATE,    /* they are switched on once */
    SWITCHED /* on and off */
} mode;

static void hold(struct worker *w, void *object, unsigned cache, unsigned site)
{
    MUST(w->holding < HELD);
    w->held[w->holding++] = (struct held){object, cache, site};
    w->taken[cache][site]++;
    if (mode == STEADY)
        MUST(stook_tag_of(object) == __atomic_load_n(&sites[site].tag, __ATOMIC_RELAXED) &&
             stook_tag_of(object) != 0);
}

static struct held let_go(struct worker *w)
{
    unsigned i = random_below(&w->seed, w->holding);
    struct held held = w->held[i];

    w->held[i] = w->held[--w->holding];
    return held;
}

/* A function of its own: the allocation from a sheaf has one address. */
static __attribute__((noinline, noclone)) void take(struct worker *w, unsigned cache, unsigned site)
{
    const struct stook_alloc_args args = {.size = sizeof(args), .site = &sites[site]};
    unsigned n = 1 + random_below(&w->seed, BULK), what = random_below(&w->seed, 5);
    void *objects[BULK], *object;

    if (w->holding + n > HELD)
        return;
    if (what < 2) {
        object = alloc_with_site(caches[cache], random_below(&w->seed, 2) ? STOOK_ZERO : 0,
                                 &sites[site]);
        MUST(object);
        hold(w, object, cache, site);
    } else if (what < 4) {
        MUST(stook_alloc_bulk_with(caches[cache], 0, n, objects, &args) == 0);
        for (unsigned i = 0; i < n; i++)
            hold(w, objects[i], cache, site);
    } else {
        struct stook_sheaf *sheaf = stook_sheaf_prefill(caches[cache], 0, n);
        MUST(sheaf);
        for (unsigned i = 0; i < n / 2; i++) {
            object = stook_sheaf_alloc(caches[cache], 0, sheaf);
            MUST(object);
            if (mode == STEADY)
                __atomic_store_n(&sites[SHEAF].tag, stook_tag_of(object), __ATOMIC_RELAXED);
            hold(w, object, cache, SHEAF);
        }
        stook_sheaf_return(caches[cache], sheaf);
    }
}

static void give(struct worker *w)
{
    void *objects[BULK];
    struct held held = let_go(w);
    unsigned n = 0;

    switch (random_below(&w->seed, 3)) {
    case 0:
        stook_free(caches[held.cache], held.object);
        return;
    case 1:
        stook_free_any(held.object);
        return;
    default:
        objects[n++] = held.object;
        for (unsigned i = w->holding; i-- > 0 && n < BULK;)
            if (w->held[i].cache == held.cache) {
                objects[n++] = w->held[i].object;
                w->held[i] = w->held[--w->holding];
            }
        stook_free_bulk(caches[held.cache], n, objects);
    }
}

static void pass(struct worker *w)
{
    pthread_mutex_lock(&exchange);
    if (random_below(&w->seed, 2)) {
        while (w->holding > 0 && passing < HELD && random_below(&w->seed, 8))
            passed[passing++] = let_go(w);
    } else {
        while (passing > 0 && w->holding < HELD && random_below(&w->seed, 8))
            w->held[w->holding++] = passed[--passing];
    }
    pthread_mutex_unlock(&exchange);
}

static void step(struct worker *w)
{
    unsigned what = random_below(&w->seed, 10);

    if (what < 4)
        take(w, random_below(&w->seed, CACHES), random_below(&w->seed, SHEAF));
    else if (what < 8 && w->holding > 0)
        give(w);
    else if (what == 8)
        pass(w);
}

static void check_site(unsigned site)
{
    struct stook_tag_stat stat = {.size = sizeof(stat)};
    uint64_t objects = 0, bytes = 0, taken = 0;

    for (unsigned t = 0; t < THREADS; t++)
        for (unsigned c = 0; c < CACHES; c++)
            taken += workers[t].taken[c][site];
    for (unsigned t = 0; t <= THREADS; t++) {
        const struct held *held = t < THREADS ? workers[t].held : passed;
        unsigned n = t < THREADS ? workers[t].holding : passing;
        for (unsigned i = 0; i < n; i++) {
            unsigned tag = stook_tag_of(held[i].object);
            MUST(tag == 0 || held[i].site == SHEAF || tag == sites[held[i].site].tag);
            if (held[i].site != site || tag == 0)
                continue;
            objects++;
            bytes += caches[held[i].cache]->account.charge;
        }
    }
    if (stook_tag_stat(sites[site].tag, &stat) != 0) {
        MUST(errno == ENOENT && objects == 0 && (taken == 0 || mode != STEADY));
        return;
    }
    if (site == SHEAF)
        stat.total_objects -= sheaf_total;
    MUST(stat.live_objects == objects && stat.live_bytes == bytes);
    MUST(stat.total_objects <= taken && (mode != STEADY || stat.total_objects == taken));
}

static void check(void)
{
    for (unsigned site = 0; site < SITES; site++)
        if (site != SHEAF || mode == STEADY) /* else its tag is not known */
            check_site(site);
}

static void start(int how)
{
    static char file[32];
    static unsigned run;
    struct stook_tag_stat sheaf = {.size = sizeof(sheaf)};
    unsigned sheaf_tag = sites[SHEAF].tag;

    mode = how;
    snprintf(file, sizeof(file), "run%u.c", ++run); /* each has sites of its own */
    memset(workers, 0, sizeof(workers));
    passing = 0;
    for (unsigned i = 0; i < SITES; i++)
        sites[i] = (struct stook_site){file, "site", i, 0};
    sites[SHEAF].tag = sheaf_tag;
    sheaf_total = stook_tag_stat(sheaf_tag, &sheaf) == 0 ? sheaf.total_objects : 0;
    for (unsigned i = 0; i < CACHES; i++) {
        struct stook_cache_args args = {.size = sizeof(args),
                                        .flags = i == 2 ? STOOK_CACHE_ACCOUNT : 0};
        caches[i] = stook_cache_create("tags", sizes[i], &args);
        MUST(caches[i]);
        if (mode == STEADY)
            MUST(stook_tags_enable(caches[i], 1) == 0);
    }
    for (unsigned i = 0; i < THREADS; i++)
        workers[i].seed = 100 * (unsigned)how + i + 1;
}

static void finish(void)
{
    struct stook_tag_stat stat = {.size = sizeof(stat)};

    for (unsigned t = 0; t < THREADS; t++)
        while (workers[t].holding > 0)
            give(&workers[t]);
    while (passing > 0)
        stook_free_any(passed[--passing].object);
    for (unsigned i = 0; i < SITES; i++)
        MUST(mode == SWITCHED || stook_tag_stat(sites[i].tag, &stat) != 0 ||
             (stat.live_objects == 0 && stat.live_bytes == 0));
    for (unsigned i = 0; i < CACHES; i++)
        MUST(stook_cache_destroy(caches[i]) == 0);
}

/* ---- alone ---------------------------------------------------------------------------------- */

static int go_on(void *arg)
{
    check(); /* what the parent had counted */
    for (unsigned i = 0; i < 2000; i++)
        step(&workers[i % THREADS]);
    check();
    finish();
    return 0;
}

TEST(test_alone)
{
    start(STEADY);
    for (unsigned i = 0; i < scaled(40000); i++) {
        step(&workers[i % THREADS]);
        if (i % 4000 == 0)
            check();
    }
    in_child(go_on, NULL);
    check();
    finish();
}

/* Switched on one after the other: there are slabs from before and from after. */
TEST(test_late)
{
    uint64_t tagged, total, rounds = scaled(40000);

    start(LATE);
    for (unsigned i = 0; i < rounds; i++) {
        step(&workers[i % THREADS]);
        if (i % (rounds / 40) != 0)
            continue;
        unsigned cache = (unsigned)(i / (rounds / 40)) % 5;
        if (cache < CACHES && i > rounds / 10)
            MUST(stook_tags_enable(caches[cache], 1) == 0);
        for (unsigned c = 0; c < CACHES; c++) {
            tagged_bytes(caches[c], &tagged, &total);
            MUST(tagged <= total);
        }
        check();
    }
    finish();
}

TEST(test_share)
{
    enum { MANY = 4000 };
    static void *objects[MANY];
    struct stook_cache *cache = stook_cache_create("share", 128, NULL);
    uint64_t tagged, total;

    assert_non_null(cache);
    assert_int_equal(stook_alloc_bulk(cache, 0, 50, objects), 0);
    tagged_bytes(cache, &tagged, &total);
    assert_true(tagged == 0 && total > 0);
    errno = 0;
    assert_int_equal(stook_tags_enable(cache, 2), -1);
    assert_int_equal(errno, EINVAL);
    assert_int_equal(stook_tags_enable(cache, 1), 0);
    assert_int_equal(stook_alloc_bulk(cache, 0, MANY - 50, objects + 50), 0);
    tagged_bytes(cache, &tagged, &total);
    assert_true(tagged > 0 && tagged < total && total >= MANY * 128);
    assert_int_equal(stook_tag_of(objects[0]), 0);
    assert_int_not_equal(stook_tag_of(objects[MANY - 1]), 0);
    stook_free_bulk(cache, MANY, objects);
    assert_int_equal(stook_cache_destroy(cache), 0);
}

/* ---- threads and handlers ------------------------------------------------------------------- */

static _Atomic unsigned running, handled;
static pthread_t interrupted;

/* Takes and gives back; sometimes it has nothing, and holds nothing. */
static void handler(int signal)
{
    int saved = errno;
    void *objects[3];
    unsigned n = 0;

    for (unsigned i = 0; i < 3; i++)
        if ((objects[n] = alloc_with_site(caches[i], STOOK_SIGNAL_SAFE, &sites[HANDLER])) != NULL) {
            atomic_fetch_add(&handled, 1);
            workers[0].taken[i][HANDLER]++;
            n++;
        }
    while (n > 0)
        stook_free_any(objects[--n]);
    errno = saved;
}

/* ThreadSanitizer hands signals to their handlers where the C library is called. */
static void signal_point(uint64_t i)
{
#if defined(__SANITIZE_THREAD__)
    if (i % 64 == 0)
        usleep(1);
#else
    (void)i;
#endif
}

static void *work(void *arg)
{
    struct worker *w = arg;
    uint64_t rounds = scaled(30000);
    sigset_t signals;

    sigemptyset(&signals);
    sigaddset(&signals, SIGUSR1);
    pthread_sigmask(w == workers ? SIG_UNBLOCK : SIG_BLOCK, &signals, NULL);
    for (uint64_t i = 0;
         i < rounds || (w == workers && atomic_load(&handled) < 20 && i < 100 * rounds); i++) {
        step(w);
        signal_point(i);
        if (mode != STEADY && i % 1000 == 999)
            MUST(stook_tags_enable(caches[random_below(&w->seed, CACHES)],
                                   mode == LATE || random_below(&w->seed, 2)) == 0);
    }
    pthread_sigmask(SIG_BLOCK, &signals, NULL);
    atomic_fetch_sub(&running, 1);
    return NULL;
}

static void run_threads(int how)
{
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
    pthread_t threads[THREADS];

    MUST(sigaction(SIGUSR1, &action, NULL) == 0);
    start(how);
    atomic_store(&running, THREADS);
    atomic_store(&handled, 0);
    for (unsigned i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
    interrupted = threads[0];
    while (atomic_load(&running) > 0) {
        pthread_kill(interrupted, SIGUSR1);
        sched_yield();
    }
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_true(atomic_load(&handled) >= 20);
    if (mode != SWITCHED)
        check();
    finish();
}

TEST(test_threads)
{
    run_threads(STEADY);
}

TEST(test_threads_late)
{
    run_threads(LATE);
}

TEST(test_threads_switched)
{
    run_threads(SWITCHED);
}

/* ---- sites ---------------------------------------------------------------------------------- */

/* The macros make a site of each place, and the same place is one site. */
TEST(test_macros)
{
    struct stook_tag_stat stat = {.size = sizeof(stat)};
    struct stook_cache *cache = stook_cache_create("macros", 96, NULL);
    void *a[3], *b, *c;
    unsigned line = 0;

    assert_non_null(cache);
    assert_int_equal(stook_tags_enable(cache, 1), 0);
    for (unsigned i = 0; i < 3; i++) {
        a[i] = stook_alloc(cache, 0), line = __LINE__;
    }
    b = stook_alloc(cache, STOOK_ZERO);
    c = (stook_alloc)(cache, 0); /* without the macro: the code that it returns to */
    assert_int_equal(stook_tag_of(a[0]), stook_tag_of(a[2]));
    assert_int_not_equal(stook_tag_of(a[0]), stook_tag_of(b));
    assert_int_equal(stook_tag_stat(stook_tag_of(a[0]), &stat), 0);
    assert_int_equal(stat.live_objects, 3);
    assert_int_equal(stat.line, line);
    assert_string_equal(stat.function, __func__);
    assert_string_equal(stat.file, __FILE__);
    assert_int_equal(stook_tag_stat(stook_tag_of(c), &stat), 0);
    assert_null(stat.file);
    assert_true(stat.address != 0 && stat.live_objects == 1);
    for (unsigned i = 0; i < 3; i++)
        stook_free(cache, a[i]);
    stook_free(cache, b);
    stook_free(cache, c);
    assert_int_equal(stook_cache_destroy(cache), 0);
}

/* A wrapper names its caller; without one its own call counts. */
TEST(test_wrapped)
{
    struct stook_tag_stat stat = {.size = sizeof(stat)};
    struct stook_cache *cache = stook_cache_create("wrapped", 96, NULL);
    const void *from = (const void *)0x500000000123;
    void *a[2], *b;

    assert_non_null(cache);
    assert_int_equal(stook_tags_enable(cache, 1), 0);
    for (unsigned i = 0; i < 2; i++)
        assert_non_null(a[i] = alloc_with_from(cache, i ? STOOK_ZERO : 0, from));
    assert_non_null(b = alloc_with_from(cache, 0, NULL));
    assert_int_equal(stook_tag_stat(stook_tag_of(a[0]), &stat), 0);
    assert_true(stat.address == (uintptr_t)from && stat.live_objects == 2);
    assert_int_equal(stook_tag_stat(stook_tag_of(b), &stat), 0);
    assert_true(stat.address - (uintptr_t)&test_wrapped < 4096 && stat.live_objects == 1);
    for (unsigned i = 0; i < 2; i++)
        stook_free(cache, a[i]);
    stook_free(cache, b);
    assert_int_equal(stook_cache_destroy(cache), 0);
}
