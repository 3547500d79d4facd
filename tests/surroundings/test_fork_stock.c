/* SPDX-License-Identifier: MIT */
/* link: malloc-static */
/* needs: malloc native */
/*
 * A fork holds the library's locks and waits for a mutex that another thread has while it allocates: the
 * handler that takes the mutex was registered before the library's own, so it runs after that.
 */
#include "base/context.h"
#include "support/malloc_calls.h"
#include "support/random.h"
#include "support/test.h"

#include <stook/kmalloc.h>
#include <stook/stook.h>

#include <pthread.h>
#include <stdatomic.h>
#include <sched.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { FORKS = 40, TIME = 240 };
#else
enum { FORKS = 300, TIME = 60 };
#endif

enum {
    THREADS = 3,
    KEPT = 24,  /* objects of a kind that a thread keeps */
    STEPS = 60, /* at least, of a thread while a fork waits */
    BULK = 40,
    EDGE = 200,       /* bytes of an object that are written */
    LARGEST = 600000, /* of most objects … */
    HUGE = 6 << 20,   /* … and of some */
    MANY = 3000,
    MANY_BYTES = 50000,
};

static pthread_mutex_t foreign = PTHREAD_MUTEX_INITIALIZER;
static atomic_bool waiting, stop;
static atomic_uint held, beside; /* forks with all locks held; steps beside one that waits */

static void foreign_take(void)
{
    atomic_fetch_add(&held, context_holds_all());
    atomic_store(&waiting, true);
    pthread_mutex_lock(&foreign);
    atomic_store(&waiting, false);
}

static void foreign_drop(void)
{
    pthread_mutex_unlock(&foreign);
}

static void foreign_register(void)
{
    (void)pthread_atfork(foreign_take, foreign_drop, foreign_drop);
}

/* Before the first malloc. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
static __attribute__((constructor(101), used)) void foreign_first(void)
{
    foreign_register();
}
#else
static void (*const foreign_first)(void)
    __attribute__((section(".preinit_array"), used)) = foreign_register;
#endif

/* ---- what a thread has ---------------------------------------------------------------------- */

struct worker {
    uint64_t random;
    struct {
        unsigned char *at;
        size_t size;
        uint64_t seed;
    } kept[KEPT];
    uint64_t *typed[KEPT];
};

/* The first bytes, and the last one. */
static void fill(unsigned char *p, size_t size, uint64_t seed)
{
    calls_fill(p, 0, size < EDGE ? size : EDGE, seed);
    p[size - 1] = calls_byte(seed, size - 1);
}

/* Of an object of `size` bytes, what `part` of these had. */
static bool holds(const unsigned char *p, size_t part, size_t size, uint64_t seed)
{
    return calls_holds(p, part < EDGE ? part : EDGE, seed) &&
           (part < size || p[size - 1] == calls_byte(seed, size - 1));
}

static struct stook_cache *cache; /* with a constructor */

static void typed_make(void *object, void *arg)
{
    uint64_t *words = object;

    words[0] = 0x5100c;
    words[1] = 0;
}

static size_t worker_size(struct worker *w)
{
    uint64_t r = random_next(&w->random);

    if (r % 200 == 0)
        return HUGE / 2 + (r >> 8) % (HUGE / 2);
    return r % 8 == 0 ? (r >> 8) % LARGEST : (r >> 8) % 5000;
}

static void *worker_get(struct worker *w, size_t size)
{
    switch (random_next(&w->random) % 4) {
    case 0:
        return t_calloc(1, size);
    case 1:
        return t_memalign((size_t)16 << random_next(&w->random) % 8, size);
    default:
        return t_malloc(size);
    }
}

static void worker_step_any(struct worker *w)
{
    unsigned i = (unsigned)(random_next(&w->random) % KEPT);
    size_t size = 1 + worker_size(w);

    if (w->kept[i].at) {
        CHECK(holds(w->kept[i].at, w->kept[i].size, w->kept[i].size, w->kept[i].seed));
        CHECK(t_malloc_usable_size(w->kept[i].at) >= w->kept[i].size);
    }
    if (w->kept[i].at && random_next(&w->random) % 2) {
        size_t had = w->kept[i].size, least = size < had ? size : had;
        w->kept[i].at = t_realloc(w->kept[i].at, size);
        CHECK(w->kept[i].at);
        CHECK(holds(w->kept[i].at, least, had, w->kept[i].seed));
    } else {
        t_free(w->kept[i].at);
        w->kept[i].at = worker_get(w, size);
        CHECK(w->kept[i].at);
    }
    w->kept[i].size = size;
    w->kept[i].seed = random_next(&w->random);
    fill(w->kept[i].at, size, w->kept[i].seed);
}

static void worker_step_typed(struct worker *w)
{
    unsigned i = (unsigned)(random_next(&w->random) % KEPT);
    void *bulk[BULK], *block;

    if (w->typed[i]) {
        CHECK(w->typed[i][1] == i + 1);
        w->typed[i][1] = 0;
        stook_free(cache, w->typed[i]);
    }
    w->typed[i] = stook_alloc(cache, STOOK_WAIT);
    CHECK(w->typed[i] && w->typed[i][0] == 0x5100c && w->typed[i][1] == 0);
    w->typed[i][1] = i + 1;
    CHECK(stook_alloc_bulk(cache, STOOK_WAIT, BULK, bulk) == 0);
    for (unsigned k = 0; k < BULK; k++)
        CHECK(((uint64_t *)bulk[k])[0] == 0x5100c);
    stook_free_bulk(cache, BULK, bulk);
    block = stook_kmalloc(1 + worker_size(w) % 20000, STOOK_WAIT);
    CHECK(block);
    stook_free_any(block);
}

static void worker_step(struct worker *w)
{
    if (random_next(&w->random) % 3)
        worker_step_any(w);
    else
        worker_step_typed(w);
}

static void worker_end(struct worker *w)
{
    for (unsigned i = 0; i < KEPT; i++) {
        t_free(w->kept[i].at);
        if (w->typed[i])
            w->typed[i][1] = 0;
        stook_free(cache, w->typed[i]);
    }
}

/* Has the mutex until a fork waits for it, and for some steps more. */
static void *worker_main(void *arg)
{
    struct worker *w = arg;

    while (!atomic_load(&stop)) {
        unsigned more = 0;
        pthread_mutex_lock(&foreign);
        while (more < STEPS && !atomic_load(&stop)) {
            bool beside_one = atomic_load(&waiting);
            worker_step(w);
            more += beside_one;
            atomic_fetch_add(&beside, beside_one);
        }
        pthread_mutex_unlock(&foreign);
        while (atomic_load(&waiting))
            sched_yield();
    }
    worker_end(w);
    return NULL;
}

/* Without the mutex. */
static void *other_main(void *arg)
{
    struct worker *w = arg;

    while (!atomic_load(&stop))
        worker_step(w);
    worker_end(w);
    return NULL;
}

/* The first kmalloc makes the caches of its classes, unless a fork has the lock of the list. */
static void first_kmalloc(void)
{
    char *object = stook_kmalloc(100, STOOK_NOFAIL);

    CHECK(object);
    memset(object, 1, 100);
    CHECK(stook_usable_size(object) >= 100);
    stook_free_any(object);
}

/* More than what a fork sets aside, and more than the objects that are mapped without a pause. */
static void keep_many(void)
{
    static unsigned char *many[MANY];

    for (unsigned i = 0; i < MANY; i++) {
        many[i] = t_malloc(MANY_BYTES);
        CHECK(many[i]);
        fill(many[i], MANY_BYTES, i);
    }
    for (unsigned i = 0; i < MANY; i++) {
        CHECK(t_malloc_usable_size(many[i]) >= MANY_BYTES);
        CHECK(holds(many[i], MANY_BYTES, MANY_BYTES, i));
        t_free(many[i]);
    }
}

/* Does something while a fork waits for the mutex. */
static void *once_main(void *arg)
{
    void (*const *what)(void) = arg;

    pthread_mutex_lock(&foreign);
    atomic_store(&stop, true);
    while (!atomic_load(&waiting))
        sched_yield();
    (*what)();
    pthread_mutex_unlock(&foreign);
    return NULL;
}

/* ---- the process that forks ----------------------------------------------------------------- */

static void child_main(unsigned seed)
{
    struct worker w = {.random = seed};

    for (size_t size = 1; size < LARGEST; size += 1 + size / 7) {
        unsigned char *p = t_malloc(size);
        CHECK(p);
        fill(p, size, size);
        CHECK(holds(p, size, size, size));
        t_free(p);
    }
    for (unsigned i = 0; i < 100 && cache; i++)
        worker_step(&w);
    if (cache)
        worker_end(&w);
    _exit(0);
}

static void fork_once(unsigned seed)
{
    int status;
    pid_t child;

    alarm(TIME); /* ends what hangs */
    child = fork();
    assert_true(child >= 0);
    if (child == 0)
        child_main(seed);
    assert_int_equal(waitpid(child, &status, 0), child);
    alarm(0);
    assert_int_equal(status, 0);
}

static size_t in_use(void)
{
    struct mallinfo2 info;

    (void)t_malloc_trim(0);
    info = t_mallinfo2();
    return info.uordblks + info.hblkhd;
}

static void run(void *(*const bodies[THREADS])(void *), unsigned forks)
{
    static struct worker workers[THREADS];
    struct stook_cache_args args = {.size = sizeof(args), .ctor = typed_make};
    pthread_t threads[THREADS];
    unsigned before = atomic_load(&held), beside_before = atomic_load(&beside);
    size_t had = 0;

    for (unsigned round = 0; round < 2; round++) { /* the first makes what stays */
        atomic_store(&stop, false);
        cache = stook_cache_create("typed", 200, &args);
        assert_non_null(cache);
        had = in_use();
        for (unsigned i = 0; i < THREADS; i++) {
            workers[i] = (struct worker){.random = i + 1 + 100 * round};
            assert_int_equal(pthread_create(&threads[i], NULL, bodies[i], &workers[i]), 0);
        }
        for (unsigned i = 0; i < forks; i++)
            fork_once(i);
        atomic_store(&stop, true);
        for (unsigned i = 0; i < THREADS; i++)
            pthread_join(threads[i], NULL);
        assert_int_equal(stook_cache_destroy(cache), 0);
    }
    assert_int_equal(atomic_load(&held) - before, 2 * forks);
    if (bodies[0] == worker_main)
        assert_true(atomic_load(&beside) - beside_before >= forks / 2 * STEPS);
    assert_true(in_use() <= had + 4096);
}

static void run_once(void (*what)(void))
{
    pthread_t thread;

    assert_int_equal(pthread_create(&thread, NULL, once_main, &what), 0);
    while (!atomic_load(&stop))
        sched_yield();
    fork_once(1);
    atomic_store(&stop, false);
    pthread_join(thread, NULL);
}

TEST(test_the_first_kmalloc)
{
    run_once(first_kmalloc);
}

TEST(test_many_objects)
{
    run_once(keep_many);
}

TEST(test_a_mutex_that_fork_waits_for)
{
    void *(*const bodies[THREADS])(void *) = {worker_main, worker_main, worker_main};

    run(bodies, FORKS / 2);
}

TEST(test_other_threads_beside_it)
{
    void *(*const bodies[THREADS])(void *) = {worker_main, other_main, other_main};

    run(bodies, FORKS / 8); /* each goes slowly: there are more threads than CPUs */
}
