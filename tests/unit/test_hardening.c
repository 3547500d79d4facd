/* SPDX-License-Identifier: MIT */
/* needs: whole native */
/*
 * Hardening flags of a cache, each by what it does: order, zeros, the quarantine, guard pages, pages that stay one
 * cache's.  The program continues after a report, so that reports can be counted.
 */
#include "cache/cache_list.h"
#include "harden/quarantine.h"
#include "page/zone.h"
#include "slab/runs.h"

#include "support/environment.h"
#include "support/stay.h"
#include "support/heard.h"
#include "support/scale.h"
#include "support/test.h"

#include <stook/debug.h>
#include <stook/reserve.h>
#include <stook/stook.h>

#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>

enum { QUARANTINE = 256 << 10, MANY = 4000 };

static struct stook_cache *make_with(const char *name, size_t size, unsigned flags,
                                     void (*ctor)(void *, void *))
{
    struct stook_cache_args args = {.size = sizeof(args), .flags = flags, .ctor = ctor};
    struct stook_cache *cache = stook_cache_create(name, size, &args);

    assert_non_null(cache);
    return cache;
}

static struct stook_cache *make(size_t size, unsigned flags)
{
    return make_with("hardened", size, flags, NULL);
}

static unsigned char *take(struct stook_cache *cache)
{
    unsigned char *object = stook_alloc(cache, 0);

    assert_non_null(object);
    return object;
}

static void unmake(struct stook_cache *cache)
{
    assert_int_equal(stook_cache_destroy(cache), 0);
}

static const size_t sizes[] = {8, 16, 40, 64, 200, 1000, 4096, 20000};
#define EACH(i, array) (size_t i = 0; i < sizeof(array) / sizeof((array)[0]); i++)

/* ---- order ----------------------------------------------------------------------------------- */

/* How many of a cache's next objects follow the one before at the stride: all but a few, or few. */
static unsigned in_order(struct stook_cache *cache, unsigned char **objects, unsigned n)
{
    unsigned follow = 0;

    for (unsigned i = 0; i < n; i++) {
        objects[i] = take(cache);
        follow += i > 0 && (objects[i] == objects[i - 1] + cache->layout.stride ||
                            objects[i] + cache->layout.stride == objects[i - 1]);
    }
    return follow;
}

TEST(order)
{
    static unsigned char *objects[MANY];
    struct stook_cache *plain = make(64, 0), *random = make(64, STOOK_CACHE_RANDOM);

    assert_true(in_order(plain, objects, MANY) > MANY * 9 / 10);
    for (unsigned i = 0; i < MANY; i++)
        stook_free(plain, objects[i]);
    assert_true(in_order(random, objects, MANY) < MANY / 10);
    /* Freed in order of address: barns and slabs hand them out in another one. */
    for (unsigned i = 0; i < MANY; i++)
        for (unsigned k = i; k > 0 && objects[k] < objects[k - 1]; k--) {
            unsigned char *at = objects[k];
            objects[k] = objects[k - 1];
            objects[k - 1] = at;
        }
    for (unsigned i = 0; i < MANY; i++)
        stook_free(random, objects[i]);
    assert_true(in_order(random, objects, MANY) < MANY / 4);
    for (unsigned i = 0; i < MANY; i++)
        stook_free(random, objects[i]);
    unmake(plain);
    unmake(random);
}

/* ---- zero ------------------------------------------------------------------------------------ */

static size_t not_zero(const unsigned char *object, size_t n)
{
    size_t wrong = 0;

    for (size_t i = 0; i < n; i++)
        wrong += object[i] != 0;
    return wrong;
}

static void construct(void *object, void *arg)
{
    *(unsigned *)object = 0x12345678;
}

TEST(zero)
{
    struct stook_cache_args args = {
        .size = sizeof(args), .flags = STOOK_CACHE_ZERO_ON_FREE, .ctor = construct};

    for
        EACH(i, sizes)
    for (unsigned also = 0; also < 2; also++) {
        struct stook_cache *cache =
            make(sizes[i], STOOK_CACHE_ZERO_ON_FREE | (also ? STOOK_CACHE_QUARANTINE : 0));
        void *objects[40];
        for (unsigned turn = 0; turn < 3; turn++) {
            assert_int_equal(stook_alloc_bulk(cache, 0, 40, objects), 0);
            for (unsigned k = 0; k < 40; k++) {
                assert_int_equal(not_zero(objects[k], sizes[i]), 0);
                memset(objects[k], 0xff, stook_usable_size(objects[k]));
            }
            for (unsigned k = 0; k < 20; k++) {
                stook_free(cache, objects[k]);
                assert_int_equal(not_zero(objects[k], sizes[i]), 0);
            }
            stook_free_bulk(cache, 20, objects + 20);
        }
        unmake(cache);
    }
    assert_null(stook_cache_create("constructed", 64, &args));
    SAID(0);
}

/* ---- quarantine ------------------------------------------------------------------------------ */

/* Bytes that are freed until an address comes again. */
static size_t until_again(struct stook_cache *cache, const unsigned char *object)
{
    size_t freed = 0;
    unsigned char *next;

    while ((next = take(cache)) != object && freed < (size_t)16 * QUARANTINE) {
        stook_free(cache, next);
        freed += cache->layout.stride;
    }
    stook_free(cache, next);
    return freed;
}

TEST(reuse)
{
    cpu_set_t had;

    stay_begin(&had); /* queues and sheaves are a CPU's */
    for
        EACH(i, sizes)
        {
            struct stook_cache *plain = make(sizes[i], 0),
                               *cache = make(sizes[i], STOOK_CACHE_QUARANTINE);
            unsigned char *object = take(plain);
            size_t least = QUARANTINE;
            stook_free(plain, object);
            assert_int_equal(until_again(plain, object), 0);
            object = take(cache);
            stook_free(cache, object);
            assert_true(quarantine_bytes() >= cache->layout.stride);
            if (least > 8192 * cache->layout.stride) /* a queue has so many entries */
                least = 8192 * cache->layout.stride;
            assert_true(until_again(cache, object) + 2 * cache->layout.stride >= least);
            assert_true(quarantine_bytes() <= QUARANTINE + 2 * cache->layout.stride + 4096u * 64);
            unmake(plain);
            unmake(cache);
            assert_int_equal(quarantine_bytes(), 0);
        }
    stay_end(&had);
    SAID(0);
}

/* What is held is bounded after each free, also where a large object comes after thousands of small ones. */
TEST(bound)
{
    enum { SMALL = 9000, LARGE = 40 };
    static unsigned char *small[SMALL], *large[LARGE];
    struct stook_cache *few = make(20000, STOOK_CACHE_QUARANTINE),
                       *many = make(16, STOOK_CACHE_QUARANTINE);
    cpu_set_t had;

    stay_begin(&had);
    for (unsigned turn = 0; turn < 2; turn++) {
        for (unsigned i = 0; i < SMALL; i++)
            small[i] = take(many);
        for (unsigned i = 0; i < LARGE; i++)
            large[i] = take(few);
        for (unsigned i = 0; i < SMALL; i++) {
            stook_free(many, small[i]);
            assert_true(quarantine_bytes() <= QUARANTINE);
        }
        for (unsigned i = 0; i < LARGE; i++) {
            stook_free(few, large[i]);
            assert_true(quarantine_bytes() <= QUARANTINE);
        }
        assert_true(quarantine_bytes() > QUARANTINE - few->layout.stride);
    }
    stay_end(&had);
    unmake(few);
    unmake(many);
    assert_int_equal(quarantine_bytes(), 0);
    SAID(0);
}

static void *free_it(void *arg)
{
    void **two = arg;

    stook_free(two[0], two[1]);
    return NULL;
}

TEST(twice)
{
    static unsigned char *others[MANY];

    for
        EACH(i, sizes)
        {
            struct stook_cache *cache = make(sizes[i], STOOK_CACHE_QUARANTINE);
            unsigned char *p = take(cache), *q = take(cache), *r = take(cache);
            void *three[3] = {r, NULL, r}, *two[2] = {cache, p};
            pthread_t thread;
            stook_free(cache, p);
            stook_free(cache, p);
            SAID(1);
            stook_free(cache, q);
            stook_free(cache, p);
            SAID(1);
            assert_int_equal(pthread_create(&thread, NULL, free_it, two), 0);
            pthread_join(thread, NULL);
            SAID(1);
            stook_free_bulk(cache, 3, three);
            SAID(1);
            stook_free(cache, q + 1);
            SAID(1);
            for (unsigned k = 0; k < 300; k++)
                others[k] = take(cache);
            for (unsigned k = 0; k < 300; k++)
                stook_free(cache, others[k]);
            stook_free(cache, q); /* wherever it is by now, it is not with a user */
            SAID(1);
            (void)stook_cache_shrink(cache);
            for (unsigned k = 0; k < 300; k++) {
                others[k] = take(cache);
                for (unsigned j = 0; j < k && k < 50; j++)
                    assert_ptr_not_equal(others[j], others[k]);
            }
            for (unsigned k = 0; k < 300; k++)
                stook_free(cache, others[k]);
            unmake(cache);
            SAID(0);
        }
}

/* A write to a freed object is found when it leaves, wherever it is, and the object is used no more. */
TEST(written)
{
    for
        EACH(i, sizes)
    for (unsigned where = 0; where < 3; where++) {
        struct stook_cache *cache =
            make(sizes[i], STOOK_CACHE_QUARANTINE | (where == 1 ? STOOK_CACHE_ZERO_ON_FREE : 0));
        unsigned char *object = take(cache), *other = take(cache);
        stook_free(cache, object);
        object[where == 0 ? 0 : where == 1 ? sizes[i] / 2 : sizes[i] - 1] ^= 0x10;
        SAID(0);
        (void)stook_cache_shrink(cache);
        SAID(1);
        for (unsigned k = 0; k < 3000; k++) {
            unsigned char *next = take(cache);
            assert_ptr_not_equal(next, object);
            stook_free(cache, next);
        }
        stook_free(cache, other);
        SAID(0);
        assert_int_equal(stook_cache_destroy(cache), -1); /* one object is lost */
        heard = 0;
    }
}

/* A constructed object keeps what it has. */
TEST(constructed)
{
    struct stook_cache *cache = make_with("constructed", 64, STOOK_CACHE_QUARANTINE, construct);

    for (unsigned i = 0; i < 20000; i++) {
        unsigned *object = stook_alloc(cache, 0);
        assert_int_equal(*object, 0x12345678);
        stook_free(cache, object);
    }
    unmake(cache);
    SAID(0);
}

TEST(reserves)
{
    struct stook_cache *cache = make(200, STOOK_CACHE_QUARANTINE | STOOK_CACHE_ZERO_ON_FREE);
    struct stook_sheaf *sheaf;
    struct stook_pool *pool;
    void *objects[30];

    (void)arena_trim(); /* pages of other caches may have anything */
    sheaf = stook_sheaf_prefill(cache, 0, 30);
    assert_non_null(sheaf);
    for (unsigned i = 0; i < 30; i++)
        assert_non_null(objects[i] = stook_sheaf_alloc(cache, 0, sheaf));
    stook_sheaf_return(cache, sheaf);
    stook_free(cache, objects[3]);
    stook_free(cache, objects[3]);
    SAID(1);
    objects[3] = NULL;
    stook_free_bulk(cache, 30, objects);
    pool = stook_pool_create(cache, 10);
    assert_non_null(pool);
    for (unsigned i = 0; i < 1000; i++) {
        void *object = stook_pool_alloc(pool, 0, NULL), *other = stook_pool_alloc(pool, 0, NULL);
        assert_true(not_zero(object, 200) <= 16); /* a pool links its reserve through the objects */
        memset(object, 0xee, 200);
        stook_pool_free(pool, object);
        stook_pool_free(pool, other);
    }
    stook_pool_destroy(pool);
    SAID(0);
    unmake(cache);
    SAID(0);
}

/* What is written behind what was asked for is found by the free, and behind a freed object later. */
TEST(canary)
{
    struct stook_cache *cache = make(56, STOOK_CACHE_QUARANTINE);
    char *object, *next;
    cpu_set_t had;

    stay_begin(&had);
    object = stook_alloc(cache, 0);
    assert_int_equal(stook_usable_size(object), 56);
    memset(object, 1, 56);
    object[56] ^= 1;
    stook_free(cache, object);
    SAID(1);
    object = stook_alloc(cache, 0);
    stook_free(cache, object);
    object[58] ^= 1; /* it is held */
    for (unsigned i = 0; i < 100000 && heard == 0; i++)
        if ((next = stook_alloc(cache, 0)) != NULL)
            stook_free(cache, next);
    stay_end(&had);
    SAID(1);
    assert_int_equal(stook_cache_destroy(cache), -1); /* two are out for good */
    heard = 0;
}

/* ---- many threads ---------------------------------------------------------------------------- */

enum { THREADS = 4, TURNS = 20000 / SCALE_SLOWNESS, HELD = 64 };

static struct stook_cache *shared[3];

static void *churn(void *arg)
{
    unsigned char *held[HELD] = {0};
    unsigned seed = (unsigned)(uintptr_t)arg;

    for (unsigned i = 0; i < TURNS; i++) {
        unsigned at = (seed = seed * 1103515245 + 12345) >> 16 & (HELD - 1);
        struct stook_cache *cache = shared[at % 3];
        if (held[at]) {
            if (held[at][0] != (unsigned char)at)
                abort();
            stook_free(cache, held[at]);
            held[at] = NULL;
        } else if ((held[at] = stook_alloc(cache, 0)) != NULL) {
            memset(held[at], (int)at, cache->object_size);
        }
        if (i % (TURNS / 4) == 0)
            (void)stook_cache_shrink(cache);
    }
    for (unsigned at = 0; at < HELD; at++)
        stook_free(shared[at % 3], held[at]);
    return NULL;
}

TEST(crowd)
{
    const unsigned all = STOOK_CACHE_RANDOM | STOOK_CACHE_ZERO_ON_FREE | STOOK_CACHE_QUARANTINE |
                         STOOK_CACHE_GUARD_PAGES | STOOK_CACHE_OWN_PAGES;
    pthread_t thread[THREADS];

    for
        EACH(i, shared)
    shared[i] = make(sizes[2 * i + 1], all);
    for (uintptr_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, churn, (void *)(i + 1)), 0);
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    for
        EACH(i, shared)
    unmake(shared[i]);
    SAID(0);
}

/* ---- guard pages ----------------------------------------------------------------------------- */

static unsigned mappings(void)
{
    FILE *file = fopen("/proc/self/maps", "r");
    unsigned lines = 0;

    assert_non_null(file);
    for (int c; (c = getc(file)) != EOF;)
        lines += c == '\n';
    fclose(file);
    return lines;
}

static unsigned char *end_of(struct stook_cache *cache, const void *object)
{
    uint32_t index;
    const struct slab *slab = slab_find(cache, object, &index);

    return (unsigned char *)slab_base(slab) +
           ((size_t)PAGE_SIZE << slab_order(
                cache, atomic_load_explicit(&slab->state, memory_order_relaxed)));
}

static int touch(void *at)
{
    *(volatile unsigned char *)at = 1;
    return 0;
}

TEST(guards)
{
    static unsigned char *objects[MANY];

    for
        EACH(i, sizes)
        {
            struct stook_cache *cache = make(sizes[i], STOOK_CACHE_GUARD_PAGES);
            static struct child child;
            uint32_t before = runs_guards;
            objects[0] = take(cache);
            assert_int_equal(runs_guards, before + 1);
            child_run(&child, touch, end_of(cache, objects[0]) - 1);
            assert_true(child_passed(&child));
            child_run(&child, touch, end_of(cache, objects[0]));
            assert_true(WIFSIGNALED(child.status) && WTERMSIG(child.status) == SIGSEGV);
            stook_free(cache, objects[0]);
            unmake(cache);
            assert_int_equal(runs_guards, before);
        }
}

TEST(guards_are_capped)
{
    static unsigned char *objects[MANY];
    struct stook_cache *cache = make(4096, STOOK_CACHE_GUARD_PAGES);
    uint32_t most = runs_guards_most, had = runs_guards;
    unsigned before = mappings();

    assert_true(most > 100);
    runs_guards_most = had + 50;
    for (unsigned i = 0; i < MANY; i++)
        objects[i] = take(cache);
    assert_int_equal(runs_guards, had + 50);
    assert_in_range(mappings(), before + 50, before + 150);
    for (unsigned i = 0; i < MANY; i++)
        stook_free(cache, objects[i]);
    unmake(cache);
    assert_int_equal(runs_guards, had);
    runs_guards_most = most;
}

/* ---- pages of a cache's own ------------------------------------------------------------------ */

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25 /* since Linux 6.1 */
#endif

static bool is_huge(const void *object)
{
    return zone_block(pagemap_index(object))->huge;
}

/* What khugepaged does to a block with huge pages, when it comes to it. */
static void collapse(void *object)
{
    (void)madvise(pagemap_block(pagemap_index(object)), BLOCK_SIZE, MADV_COLLAPSE);
}

static bool was_there(unsigned char **objects, unsigned n, const void *at)
{
    for (unsigned i = 0; i < n; i++)
        if ((uintptr_t)objects[i] / PAGE_SIZE == (uintptr_t)at / PAGE_SIZE)
            return true;
    return false;
}

TEST(own_pages)
{
    enum { OBJECTS = 1100 }; /* more than a block, which the arena gives no pages of back then */
    static unsigned char *first[OBJECTS], *end[OBJECTS], *later[OBJECTS], *many[MANY];
    struct stook_cache *full = make(4096, 0);

    for (unsigned i = 0; i < MANY; i++) /* a program that is large enough for huge pages */
        many[i] = take(full);
    for (unsigned guard = 0; guard < 2; guard++) {
        unsigned flags = guard ? STOOK_CACHE_GUARD_PAGES : 0;
        struct stook_cache *cache = make(2000, flags | STOOK_CACHE_OWN_PAGES), *others[4];
        unsigned again = 0, resident = 0;
        unsigned char *live;
        static struct child child;
        struct cache_counts counts;
        uint32_t guarded;
        for (unsigned i = 0; i < OBJECTS; i++) {
            first[i] = take(cache);
            end[i] = end_of(cache, first[i]);
            memset(first[i], 1, 2000);
        }
        live = take(cache);
        assert_true(end_of(cache, live) != end[0]);
        assert_true(guard || is_huge(first[0]));
        guarded = runs_guards;
        for (unsigned i = 0; i < OBJECTS; i++)
            stook_free(cache, first[i]);
        (void)stook_cache_shrink(cache);
        cache_count(cache, &counts);
        assert_int_equal(counts.slabs, 1);      /* of what is alive */
        assert_int_equal(runs_guards, guarded); /* they stay, too */
        for (unsigned i = 0; i < OBJECTS; i++) {
            unsigned char there = 0;
            if (end[i] == end_of(cache, live))
                continue;
            assert_true(guard || !is_huge(first[i]));
            collapse(first[i]);
            (void)mincore((void *)((uintptr_t)first[i] & -(uintptr_t)PAGE_SIZE), PAGE_SIZE, &there);
            resident += there & 1;
        }
        assert_int_equal(resident, 0); /* the memory is not kept */
        child_run(&child, touch, first[0]);
        assert_true(guard ? WIFSIGNALED(child.status) && WTERMSIG(child.status) == SIGSEGV
                          : child_passed(&child)); /* beside a guard page it has no access */
        for
            EACH(c, others)
            {
                others[c] = make((size_t)500 << c, flags);
                for (unsigned i = 0; i < OBJECTS; i++) {
                    later[i] = take(others[c]);
                    assert_false(was_there(first, OBJECTS, later[i]));
                }
                for (unsigned i = 0; i < OBJECTS; i++)
                    stook_free(others[c], later[i]);
                unmake(others[c]);
            }
        for (unsigned i = 0; i < OBJECTS; i++) {
            later[i] = take(cache);
            again += was_there(first, OBJECTS, later[i]);
        }
        assert_true(again > OBJECTS * 9 / 10);
        for (unsigned i = 0; i < OBJECTS; i++)
            stook_free(cache, later[i]);
        stook_free(cache, live);
        unmake(cache);
        others[0] = make(2000, flags);
        for (unsigned i = 0; i < OBJECTS; i++) {
            unsigned char *object = take(others[0]);
            assert_false(was_there(first, OBJECTS, object));
        }
    }
    for (unsigned i = 0; i < MANY; i++)
        stook_free(full, many[i]);
    unmake(full);
    SAID(0);
}

/* ---- the setting ------------------------------------------------------------------------------ */

static int hardened_all(void *unused)
{
    struct stook_cache_args args = {.size = sizeof(args), .ctor = construct};
    struct stook_cache *cache = stook_cache_create("plain", 64, NULL);
    struct stook_cache *with_ctor = stook_cache_create("constructed", 64, &args);
    const unsigned all = STOOK_CACHE_RANDOM | STOOK_CACHE_QUARANTINE | STOOK_CACHE_GUARD_PAGES |
                         STOOK_CACHE_OWN_PAGES;

    return (cache->flags & (all | STOOK_CACHE_ZERO_ON_FREE)) != (all | STOOK_CACHE_ZERO_ON_FREE) ||
           (with_ctor->flags & (all | STOOK_CACHE_ZERO_ON_FREE)) != all;
}

static int hardened_two(void *unused)
{
    struct stook_cache *cache = stook_cache_create("plain", 64, NULL);

    return (cache->flags & (STOOK_CACHE_RANDOM | CACHE_HARDENED | STOOK_CACHE_GUARD_PAGES |
                            STOOK_CACHE_OWN_PAGES)) !=
           (STOOK_CACHE_ZERO_ON_FREE | STOOK_CACHE_OWN_PAGES);
}

int main(int argc, char **argv)
{
    char *name = argv[0];

    if (argc > 1)
        return (strcmp(argv[1], "two") == 0 ? hardened_two : hardened_all)(NULL);
    environment_need("STOOK_ON_CORRUPTION", "continue", argv);
    for (unsigned i = 0; i < 2; i++) { /* programs of their own: the setting is read once */
        char command[1024];
        snprintf(command, sizeof(command), "STOOK_HARDEN=%s /proc/%d/exe %s",
                 i == 0 ? "full" : "types,zero", (int)getpid(), i == 0 ? "all" : "two");
        if (system(command) != 0) {
            fprintf(stderr, "%s: %s failed\n", name, command);
            return 1;
        }
    }
    stook_message_set(hear, NULL);
    return tests_run(NULL, NULL);
}
