/* SPDX-License-Identifier: MIT */
/*
 * kmalloc and its family: sizes, alignment, contents through krealloc, copies of strings, frees by
 * the address alone, threads and signal handlers.
 */
#include "support/random.h"
#include "support/test.h"

#include <stook/kmem.h>

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <time.h>

static const size_t sizes[] = {1,       7,
                               8,       9,
                               16,      17,
                               32,      33,
                               64,      65,
                               96,      97,
                               128,     129,
                               192,     193,
                               256,     257,
                               512,     513,
                               1024,    1025,
                               2048,    2049,
                               4096,    4097,
                               8192,    8193,
                               12288,   16384,
                               100000,  1 << 20,
                               2 << 20, (2 << 20) + 1,
                               5000000};
enum { SIZES = sizeof(sizes) / sizeof(sizes[0]) };

/* The bytes at `object` from..to are those of a pattern that begins there. */
static __attribute__((no_sanitize_thread)) void paint(void *object, size_t from, size_t to,
                                                      unsigned char seed)
{
    for (size_t i = from; i < to; i++)
        ((unsigned char *)object)[i] = (unsigned char)(seed + i * 7);
}

static __attribute__((no_sanitize_thread)) void painted(const void *object, size_t from, size_t to,
                                                        unsigned char seed)
{
    for (size_t i = from; i < to; i++)
        if (((const unsigned char *)object)[i] != (unsigned char)(seed + i * 7))
            fail_msg("byte %zu of %zu has changed", i, to);
}

static __attribute__((no_sanitize_thread)) void clear(const void *object, size_t from, size_t to)
{
    for (size_t i = from; i < to; i++)
        if (((const unsigned char *)object)[i] != 0)
            fail_msg("byte %zu of %zu is no zero", i, to);
}

TEST(every_size)
{
    void *objects[SIZES][3];

    if (getenv("STOOK_DEBUG"))
        skip(); /* an object has the size that was asked for, and no more */
    for (int i = 0; i < SIZES; i++)
        for (int k = 0; k < 3; k++) {
            void *p = objects[i][k] = kmalloc(sizes[i], GFP_KERNEL);
            size_t power = sizes[i] & (sizes[i] - 1) ? 8 : sizes[i];
            assert_non_null(p);
            assert_int_equal((uintptr_t)p % (power > 2 << 20 ? 2 << 20 : power), 0);
            assert_true(ksize(p) >= sizes[i]);
            assert_int_equal(ksize(p), kmalloc_size_roundup(sizes[i]));
            paint(p, 0, ksize(p), (unsigned char)(i * 3 + k)); /* all of it may be used */
        }
    for (int i = 0; i < SIZES; i++)
        for (int k = 0; k < 3; k++) {
            painted(objects[i][k], 0, ksize(objects[i][k]), (unsigned char)(i * 3 + k));
            kfree(objects[i][k]);
        }
    assert_int_equal(ksize(NULL), 0);
    assert_int_equal(kmalloc_size_roundup(0), 0);
    assert_int_equal(kmalloc_size_roundup(SIZE_MAX), SIZE_MAX);
}

/* The kernel's classes, and no others. */
TEST(classes)
{
    const size_t classes[] = {8, 16, 32, 64, 96, 128, 192, 256, 512, 1024, 2048, 4096, 8192};
    int class = 0;

    if (getenv("STOOK_DEBUG"))
        skip(); /* an object has the size that was asked for, and no more */
    for (size_t size = 1; size <= KMALLOC_MAX_CACHE_SIZE; size++) {
        void *p = kmalloc(size, GFP_NOWAIT);
        if (size > classes[class])
            class ++;
        assert_non_null(p);
        assert_int_equal(ksize(p), classes[class]);
        kfree(p);
    }
}

TEST(nothing)
{
    void *p = kmalloc(0, GFP_KERNEL);

    assert_ptr_equal(p, ZERO_SIZE_PTR);
    assert_true(ZERO_OR_NULL_PTR(p) && ZERO_OR_NULL_PTR(NULL));
    assert_int_equal(ksize(p), 0);
    kfree(p);
    kfree(NULL);
    kfree_sensitive(NULL);
    kvfree(NULL);
    kvfree_sensitive(p, 0);
    kfree_rcu_mightsleep(p);
    p = kcalloc(0, 100, GFP_KERNEL);
    assert_ptr_equal(p, ZERO_SIZE_PTR);
    p = krealloc(p, 10, GFP_KERNEL); /* is kmalloc() */
    assert_true(!ZERO_OR_NULL_PTR(p));
    kfree(p);
}

TEST(too_much)
{
    volatile size_t most = SIZE_MAX; /* compilers warn of sizes like it */
    void *kept = kmalloc(100, GFP_KERNEL);

    paint(kept, 0, 100, 1);
    errno = 0;
    assert_null(kmalloc_array(most / 8, 9, GFP_KERNEL));
    assert_int_equal(errno, ENOMEM);
    assert_null(kcalloc((size_t)1 << 33, (size_t)1 << 33, GFP_KERNEL));
    assert_null(kvcalloc(most, 2, GFP_KERNEL | __GFP_NOFAIL));
    assert_null(kmalloc(most, GFP_KERNEL));
    assert_null(kmalloc(most / 2 + 1, GFP_ATOMIC));
    assert_null(kmemdup_array("x", most, 2, GFP_KERNEL));
    assert_null(kmemdup_nul("x", most, GFP_KERNEL));
    assert_null(krealloc_array(kept, most, 2, GFP_KERNEL));
    assert_null(krealloc(kept, most / 4 + 1, GFP_KERNEL));
    painted(kept, 0, 100, 1); /* what cannot grow stays */
    kfree(kept);
    /* Without a lock there are no pages. */
    errno = 0;
    assert_null(kmalloc(8193, __GFP_NOWARN));
    assert_int_equal(errno, ENOMEM);
    errno = 0;
    assert_null(stook_kmalloc(8, STOOK_SIGNAL_SAFE | STOOK_NOFAIL));
    assert_int_equal(errno, EINVAL);
    errno = 0;
    assert_null(stook_kmalloc(8, 0x4000));
    assert_int_equal(errno, EINVAL);
    errno = 0;
    assert_null(stook_kmalloc(100000, 0x4000));
    assert_int_equal(errno, EINVAL);
    errno = 0;
    assert_null(stook_kmalloc(8, 0x4000 | STOOK_NOFAIL));
    assert_int_equal(errno, EINVAL);
}

TEST(zeros)
{
    for (int i = 0; i < SIZES; i++) {
        void *p = kmalloc(sizes[i], GFP_KERNEL);
        memset(p, 0xa5, ksize(p));
        kfree(p);
        p = i % 2 ? kzalloc(sizes[i], GFP_KERNEL) : kvcalloc(1, sizes[i], GFP_NOWAIT);
        clear(p, 0, ksize(p));
        memset(p, 0xa5, ksize(p));
        kfree_sensitive(p);
    }
}

TEST(realloc_keeps_contents)
{
    uint64_t random = 1;

    for (int i = 0; i < SIZES; i++)
        for (int k = 0; k < SIZES; k++) {
            size_t kept = sizes[i] < sizes[k] ? sizes[i] : sizes[k];
            unsigned char seed = (unsigned char)random_next(&random);
            void *p, *q;
            if (sizes[i] + sizes[k] > 1 << 20 && (i + k) % 6 != 0) /* some of the largest will do */
                continue;
            p = kmalloc(sizes[i], GFP_KERNEL);
            paint(p, 0, sizes[i], seed);
            q = krealloc(p, sizes[k], GFP_KERNEL);
            assert_non_null(q);
            assert_true(ksize(q) >= sizes[k]);
            painted(q, 0, kept, seed);
            paint(q, kept, ksize(q), seed);
            painted(q, 0, ksize(q), seed);
            assert_ptr_equal(krealloc(q, 0, GFP_KERNEL), ZERO_SIZE_PTR);
        }
}

/* With __GFP_ZERO throughout, what is beyond the contents is zeros, however it got its size. */
TEST(realloc_with_zeros)
{
    uint64_t random = 2;
    void *p = NULL;
    size_t had = 0;

    for (int i = 0; i < 200; i++) {
        size_t size = sizes[random_below(&random, SIZES)] + random_below(&random, 8);
        p = krealloc(p, size, GFP_KERNEL | __GFP_ZERO);
        assert_non_null(p);
        painted(p, 0, had < size ? had : size, 9);
        if (had < size)
            clear(p, had, size);
        paint(p, 0, size, 9);
        had = size;
    }
    kfree(p);
}

/* What shrinks far gives memory back, and what need not move does not. */
TEST(realloc_in_place)
{
    char *p = kmalloc(60, GFP_KERNEL), *q;

    if (getenv("STOOK_DEBUG"))
        skip(); /* as above: what grows moves */
    q = krealloc(p, 64, GFP_KERNEL);
    assert_ptr_equal(p, q);
    assert_ptr_equal(krealloc(q, 1, GFP_KERNEL), q);
    kfree(q);
    p = kmalloc(1 << 20, GFP_KERNEL);
    p = krealloc(p, 20000, GFP_KERNEL);
    assert_true(ksize(p) < 40000);
    p = krealloc(p, 100, GFP_KERNEL);
    assert_true(ksize(p) <= 8192);
    kfree(p);
}

TEST(object_of_a_cache)
{
    struct kmem_cache *cache = kmem_cache_create("odd", 200, 0, 0, NULL);
    void *p = kmem_cache_alloc(cache, GFP_KERNEL), *q = kmem_cache_alloc(cache, GFP_KERNEL);

    paint(p, 0, 200, 3);
    p = krealloc(p, 5000, GFP_KERNEL);
    painted(p, 0, 200, 3);
    kfree(p);
    kfree(q);
    assert_int_equal(stook_cache_destroy(kmem_stook_cache(cache)), 0);
}

TEST(copies)
{
    char *texts[] = {kstrdup("sheaf", GFP_KERNEL),
                     kstrndup("sheaflike", 5, GFP_KERNEL),
                     kstrndup("sheaf", 100, GFP_ATOMIC),
                     kmemdup_nul("sheaflike", 5, GFP_KERNEL),
                     kmemdup("sheaf", 6, GFP_KERNEL),
                     kvmemdup("sheaf", 6, GFP_KERNEL),
                     kmemdup_array("sheaf", 3, 2, GFP_KERNEL),
                     kasprintf(GFP_KERNEL, "%s%c", "shea", 'f')};
    const char *constant = kstrdup_const("barn", GFP_KERNEL);
    char *long_text = kasprintf(GFP_KERNEL, "%0*d", 20000, 1);

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        assert_string_equal(texts[i], "sheaf");
        kfree(texts[i]);
    }
    assert_string_equal(constant, "barn");
    kfree_const(constant);
    assert_int_equal(strlen(long_text), 20000);
    kfree(long_text);
    assert_null(kstrdup(NULL, GFP_KERNEL));
    assert_null(kstrndup(NULL, 5, GFP_KERNEL));
    assert_ptr_equal(kmemdup("", 0, GFP_KERNEL), ZERO_SIZE_PTR);
    texts[0] = kstrdup("", GFP_KERNEL);
    assert_string_equal(texts[0], "");
    kfree(texts[0]);
}

TEST(on_nodes)
{
    void *objects[] = {kmalloc_node(100, GFP_KERNEL, 0),
                       kzalloc_node(100, GFP_KERNEL, NUMA_NO_NODE),
                       kmalloc_array_node(10, 10, GFP_KERNEL, 0),
                       kcalloc_node(10, 10, GFP_KERNEL, 0),
                       kvmalloc_node(100, GFP_KERNEL, 0),
                       kvzalloc_node(100, GFP_KERNEL, 0),
                       kvmalloc(100000, GFP_KERNEL),
                       kvzalloc(100000, GFP_KERNEL),
                       kvmalloc_array(3, 50000, GFP_KERNEL),
                       kvrealloc(NULL, 100, GFP_KERNEL)};

    for (size_t i = 0; i < sizeof(objects) / sizeof(objects[0]); i++) {
        assert_true(ksize(objects[i]) >= 100);
        kvfree(objects[i]);
    }
}

/* ---- threads, handlers, children ------------------------------------------------------------- */

enum { THREADS = 4, ROUNDS = 20000, HELD = 64 };

static void *_Atomic handed[HELD];

static void use(uint64_t *random)
{
    size_t size =
        random_below(random, 100) ? 1 + random_below(random, 9000) : random_below(random, 100000);
    size_t *p = kmalloc(size + 2 * sizeof(size_t), GFP_KERNEL), *old;

    assert_non_null(p);
    p[0] = size;
    p[1] = ~size;
    if (random_below(random, 4) == 0) {
        p = krealloc(p, size * 2 + 2 * sizeof(size_t), GFP_NOWAIT);
        assert_non_null(p);
    }
    old = atomic_exchange_explicit(&handed[random_below(random, HELD)], p, memory_order_acq_rel);
    if (old) {
        assert_int_equal(old[0], ~old[1]);
        kfree(old);
    }
}

static void *run(void *seed)
{
    uint64_t random = (uintptr_t)seed;

    for (int i = 0; i < ROUNDS / THREADS; i++)
        use(&random);
    return NULL;
}

TEST(threads)
{
    pthread_t thread[THREADS];

    for (uintptr_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, run, (void *)(i + 1)), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    for (int i = 0; i < HELD; i++)
        kfree(atomic_exchange_explicit(&handed[i], NULL, memory_order_acq_rel));
}

static volatile sig_atomic_t interrupts, failures;

/* Whatever it interrupts: GFP_ATOMIC may fail, and does not wait. */
static void handler(int unused)
{
    static const size_t small[] = {8, 64, 200, 1000, 8192, 20000};
    size_t size = small[interrupts % 6];
    int saved = errno;
    unsigned char *p = kmalloc(size, interrupts % 2 ? GFP_ATOMIC : 0);

    if (p) {
        memset(p, 0xa5, size);
        failures += p[size - 1] != 0xa5;
        kfree(p);
    }
    interrupts++;
    errno = saved;
}

TEST(in_handlers)
{
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGALRM};
    const struct itimerspec often = {{0, 50000}, {0, 50000}}, never = {{0, 0}, {0, 0}};
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
    uint64_t random = 5;
    timer_t timer;

    assert_int_equal(sigaction(SIGALRM, &action, NULL), 0);
    assert_int_equal(timer_create(CLOCK_MONOTONIC, &event, &timer), 0);
    assert_int_equal(timer_settime(timer, 0, &often, NULL), 0);
    for (int i = 0; i < ROUNDS || interrupts < 100; i++)
        use(&random);
    assert_int_equal(timer_settime(timer, 0, &never, NULL), 0);
    timer_delete(timer);
    for (int i = 0; i < HELD; i++)
        kfree(atomic_exchange_explicit(&handed[i], NULL, memory_order_acq_rel));
    assert_int_equal(failures, 0);
}

TEST(in_children)
{
    void *p = kstrdup("parent's", GFP_KERNEL);
    int status;
    pid_t pid;

    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        void *q = krealloc(p, 30000, GFP_KERNEL);
        int wrong = !q || strcmp(q, "parent's") != 0;
        kfree(q);
        _exit(wrong);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_string_equal(p, "parent's");
    kfree(p);
}
