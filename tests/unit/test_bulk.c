/* SPDX-License-Identifier: MIT */
#include "large/arena_span.h"
#include "page/arena.h"
#include "slab/cache.h"

#include "support/check.h"
#include "support/random.h"
#include "support/test.h"

#include <stook/stook.h>

#include <sched.h>
#include <sys/resource.h>

enum { MOST = 70000 };
static void *objects[2 * MOST];
static struct check_object list[MOST];

static void check(struct stook_cache *cache, size_t n)
{
    for (size_t i = 0; i < n; i++)
        list[i] = (struct check_object){cache, objects[i]};
    check_all(list, n);
}

/* Sizes around a sheaf's, a slab's and the chunk of the slow path. */
TEST(all_sizes)
{
    static const unsigned sizes[] = {1,   2,   3,   7,    61,    62,    63,
                                     124, 125, 400, 5000, 65535, 65536, 65537};
    static const size_t of[] = {8, 64, 512};

    for (unsigned k = 0; k < 3; k++) {
        struct stook_cache *cache = stook_cache_create("bulk", of[k], NULL);
        for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
            unsigned n = sizes[i];
            assert_int_equal(stook_alloc_bulk(cache, 0, n, objects), 0);
            check(cache, n);
            for (unsigned o = 0; o < n; o++)
                memset(objects[o], (int)o, of[k]);
            for (unsigned o = 0; o < n; o++)
                assert_int_equal(*(unsigned char *)objects[o], o & 0xff);
            stook_free_bulk(cache, n, objects);
            check_all(NULL, 0);
        }
        assert_int_equal(stook_cache_destroy(cache), 0);
    }
}

TEST(none_and_nulls)
{
    struct stook_cache *cache = stook_cache_create("bulk", 100, NULL);
    void *untouched = &untouched;

    assert_int_equal(stook_alloc_bulk(cache, 0, 0, &untouched), 0);
    assert_ptr_equal(untouched, &untouched);
    stook_free_bulk(cache, 0, &untouched);
    memset(objects, 0, 100 * sizeof(void *));
    stook_free_bulk(cache, 100, objects);
    check_all(NULL, 0);
    for (unsigned first = 0; first < 4; first++) { /* NULLs at the ends and between */
        assert_int_equal(stook_alloc_bulk(cache, 0, 200, objects + MOST), 0);
        for (unsigned i = 0; i < 600; i++)
            objects[i] = i % 3 == first % 3 ? objects[MOST + i / 3] : NULL;
        stook_free_bulk(cache, 600, objects);
        check_all(NULL, 0);
    }
    assert_int_equal(stook_cache_destroy(cache), 0);
}

TEST(any_order)
{
    struct stook_cache *cache = stook_cache_create("bulk", 48, NULL);
    uint64_t seed = 7;

    assert_int_equal(stook_alloc_bulk(cache, 0, 20000, objects), 0);
    for (unsigned i = 20000; i > 1; i--) {
        unsigned k = random_below(&seed, i);
        void *object = objects[i - 1];
        objects[i - 1] = objects[k];
        objects[k] = object;
    }
    stook_free_bulk(cache, 20000, objects);
    check_all(NULL, 0);
    assert_int_equal(stook_cache_destroy(cache), 0);
}

/* All or nothing: more than there is room for leaves everything as it was. */
static int exhaust(void *unused)
{
    struct stook_cache_args args = {.size = sizeof(args)};
    struct stook_cache *cache = stook_cache_create("bulk", 65536, &args);
    struct rlimit limit = {0, 0};
    size_t n = 40000; /* 2.5 GiB */
    unsigned rounds = 0;

    /* What is mapped already stays; commits need none of RLIMIT_AS, so limit the data. */
    limit.rlim_cur = limit.rlim_max = 256 << 20;
    if (!cache || setrlimit(RLIMIT_DATA, &limit) != 0)
        return 77;
    for (; rounds < 3; rounds++) {
        void *one = stook_alloc(cache, 0);
        struct check_object held = {cache, one};
        if (!one)
            return 1;
        errno = 0;
        if (stook_alloc_bulk(cache, 0, n, objects) == 0 || errno != ENOMEM)
            return 2;
        check_all(&held, 1);
        if (stook_alloc_bulk(cache, 0, 500, objects) != 0) /* what there is can be had */
            return 3;
        stook_free_bulk(cache, 500, objects);
        stook_free(cache, one);
    }
    return stook_cache_destroy(cache);
}

TEST(larger_than_everything)
{
    struct child child;

    if (getenv("STOOK_EMULATED"))
        skip(); /* no limits there */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    skip(); /* their own memory is data too */
#endif
    child_run(&child, exhaust, NULL);
    if (child.status == 77 << 8)
        skip();
    assert_true(child_passed(&child));
}

/*
 * An object at a multiple of 4 GiB, which the bulk push may take for a NULL: it is freed all the
 * same, wherever it stands.  Address space up to there is taken, and none of it touched.
 */
TEST(object_at_a_round_address)
{
    static void *spans[4096];
    static const unsigned counts[] = {1, 4, 7, 8, 13, 40};
    struct stook_cache *cache;
    unsigned n_spans = 0, n = 0, at;
    cpu_set_t all, one;

    if (pagemap.size < (size_t)1 << 33)
        skip();                              /* a limit on address space */
    sched_getaffinity(0, sizeof(all), &all); /* so that what was freed is at hand */
    CPU_ZERO(&one);
    CPU_SET((unsigned)sched_getcpu(), &one);
    assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
    do { /* blocks, until one is there */
        assert_true(n_spans < 4096);
        spans[n_spans] = arena_span_alloc(0, 1, BLOCK_SIZE, false, NULL);
        assert_non_null(spans[n_spans]);
    } while ((uint32_t)(uintptr_t)spans[n_spans++] != 0);
    arena_span_free(spans[--n_spans], 1);
    cache = stook_cache_create("round", 4096, NULL);
    assert_non_null(cache);
    while (n < MOST && (n == 0 || (uint32_t)(uintptr_t)objects[n - 1] != 0)) {
        objects[n] = stook_alloc(cache, 0);
        assert_non_null(objects[n]);
        n++;
    }
    assert_true(n < MOST);
    for (unsigned i = 0; i < n_spans; i++)
        arena_span_free(spans[i], 1);
    memcpy(objects + MOST, objects, n * sizeof(void *));
    printf("object %u lies at %p\n", n - 1, objects[n - 1]);
    at = --n;
    for (unsigned c = 0; c < sizeof(counts) / sizeof(counts[0]); c++) {
        for (unsigned place = 0; place < counts[c]; place++) {
            void *burst[64];
            unsigned k = 0;
            assert_int_equal(stook_alloc_bulk(cache, 0, counts[c] - 1, burst + 1), 0);
            burst[0] = objects[MOST + at];
            burst[0] = burst[place];
            burst[place] = objects[MOST + at];
            stook_free_bulk(cache, counts[c], burst);
            memcpy(objects, objects + MOST, n * sizeof(void *));
            check(cache, n); /* and no more is out */
            do               /* take it back, and what lies over it */
                objects[n + k] = stook_alloc(cache, 0);
            while (objects[n + k++] != objects[MOST + at] && k < 2000);
            assert_ptr_equal(objects[n + k - 1], objects[MOST + at]);
            stook_free_bulk(cache, k - 1, objects + n);
        }
    }
    objects[n] = objects[MOST + at];
    stook_free_bulk(cache, n + 1, objects);
    sched_setaffinity(0, sizeof(all), &all);
    check_all(NULL, 0);
    assert_int_equal(stook_cache_destroy(cache), 0);
}

TEST(without_sheaves)
{
    struct stook_cache_args args = {.size = sizeof(args), .flags = STOOK_CACHE_NOSHEAF};
    struct stook_cache *cache = stook_cache_create("bulk", 333, &args);
    struct check_counts counts;

    assert_int_equal(stook_alloc_bulk(cache, 0, 777, objects), 0);
    check(cache, 777);
    stook_free_bulk(cache, 777, objects);
    check_count(cache, NULL, 0, &counts);
    assert_int_equal(counts.cached, 0);
    assert_int_equal(stook_cache_destroy(cache), 0);
}
