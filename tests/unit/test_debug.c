/* SPDX-License-Identifier: MIT */
/* needs: whole native */
/*
 * Debug caches: the errors that are found, the repairs, and that a cache continues afterwards.  Each error is planted, and
 * the messages are counted; death/ tests their whole texts.
 */
#include "debug/flags.h"
#include "debug/fail.h"
#include "debug/object.h"
#include "kmalloc/private.h"
#include "slab/mark.h"
#include "support/test.h"
#include "support/with.h"

#include <stook/debug.h>
#include <stook/kmalloc.h>
#include <stook/kmem.h>
#include <stook/reserve.h>
#include <stook/rcu.h>
#include <stook/stat.h>
#include <stook/stook.h>

#include <pthread.h>

#define FZPU                                                                                       \
    (STOOK_CACHE_DEBUG_CHECKS | STOOK_CACHE_DEBUG_RED_ZONE | STOOK_CACHE_DEBUG_POISON |            \
     STOOK_CACHE_DEBUG_USER)

static struct {
    _Atomic unsigned bugs, others;
    char last[256];
} said;

static void hear(int level, const char *text, size_t length, void *arg)
{
    if (strncmp(text, "BUG ", 4) != 0) {
        said.others++;
        return;
    }
    said.bugs++;
    strncpy(said.last, text, sizeof(said.last) - 1);
}

static int setup(void **state)
{
    memset(&said, 0, sizeof(said));
    stook_message_set(hear, NULL);
    return 0;
}

/* So many reports since the last time, and the last one says this. */
#define SAID(n, text)                                                                              \
    do {                                                                                           \
        if (said.bugs != (n) || ((n) > 0 && !strstr(said.last, text)))                             \
            fail_msg("%u reports, the last: %s", said.bugs, said.last);                            \
        said.bugs = 0;                                                                             \
    } while (0)
#define QUIET SAID(0, "")

static struct stook_cache *make(size_t size, unsigned flags)
{
    struct stook_cache_args args = {.size = sizeof(args), .flags = flags};
    struct stook_cache *cache = stook_cache_create("debugged", size, &args);

    assert_non_null(cache);
    return cache;
}

static uint8_t *take(struct stook_cache *cache)
{
    uint8_t *object = stook_alloc(cache, 0);

    assert_non_null(object);
    return object;
}

static void unmake(struct stook_cache *cache)
{
    if (stook_cache_destroy(cache) == 0)
        return;
    fail_msg("%s", said.last);
}

/* ---- the layout ----------------------------------------------------------------------------- */

/* Each byte of a slab belongs to one zone or object, and objects are aligned. */
TEST_WITH(layouts, setup, NULL)
{
    static const size_t sizes[] = {1, 7, 8, 16, 24, 40, 64, 96, 100, 256, 1000, 4096, 8192, 262144};

    for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
        for (size_t align = 1; align <= 4096; align *= 4) {
            struct stook_cache_args args = {
                .size = sizeof(args), .align = align, .flags = STOOK_CACHE_DEBUG_RED_ZONE};
            struct stook_cache *cache = stook_cache_create("layout", sizes[i], &args);
            const struct layout *l;
            uint8_t *object, *other;
            assert_non_null(cache);
            l = &cache->layout;
            assert_int_equal(cache_capacity(cache), 0);
            assert_true(l->link_outside && l->column[0][LAYOUT_TRACK].outside);
            assert_true(zone_left(cache) >= ZONE_LEFT && zone_left(cache) <= l->lead);
            assert_true(zone_end(cache) >= sizes[i] + ZONE_LEFT);
            assert_true(l->lead % align == 0 && l->stride % align == 0 && l->room == sizes[i]);
            assert_true(l->lead + (size_t)l->objects * l->stride <= (size_t)PAGE_SIZE << l->order);
            object = take(cache);
            other = take(cache);
            assert_int_equal((uintptr_t)object % align, 0);
            assert_int_equal((uintptr_t)other % align, 0);
            assert_int_equal(object[-1], ZONE_LIVE);
            assert_int_equal(object[sizes[i]], ZONE_LIVE);
            memset(object, 0x11, sizes[i]);
            memset(other, 0x22, sizes[i]);
            stook_free(cache, object);
            stook_free(cache, other);
            QUIET;
            unmake(cache);
        }
    QUIET;
}

/* ---- bytes ---------------------------------------------------------------------------------- */

TEST_WITH(zones, setup, NULL)
{
    struct stook_cache *cache = make(40, FZPU);
    uint8_t *object = take(cache), *other = take(cache);

    assert_int_equal(object[0], POISON_FRESH);
    object[40] = 0;
    stook_free(cache, object);
    SAID(1, "right red zone");
    assert_int_equal(object[40], ZONE_FREE);
    assert_int_equal(object[0], POISON_FREE);
    assert_int_equal(object[39], POISON_FREE);
    other[-1] = 7;
    stook_free(cache, other);
    SAID(1, "left red zone");
    /* Free, and found when it is handed out. */
    object[40] = 1;
    other[0] = 1;
    other[39] = 1;
    for (unsigned i = 0; i < cache->layout.objects; i++)
        (void)take(cache);
    assert_int_equal(said.bugs, 2);
    said.bugs = 0;
    assert_int_equal(stook_cache_validate(cache), 0);
    QUIET;
}

TEST_WITH(poison, setup, NULL)
{
    struct stook_cache *cache = make(64, FZPU);
    uint8_t *object = take(cache);

    (void)take(cache);
    stook_free(cache, object);
    object[0] = 0x6c;
    assert_int_equal(stook_cache_validate(cache), 1);
    SAID(1, "byte 0 is 0x6c instead of 0x6b");
    assert_int_equal(object[0], POISON_FREE);
    object[50] = 0;
    assert_int_equal(stook_cache_validate(cache), 1);
    SAID(1, "byte 50 ");
    assert_int_equal(stook_cache_validate(cache), 0);
    object[63] = 0;
    assert_int_equal(stook_cache_validate(NULL), 1);
    SAID(1, "byte 63 is 0x00 instead of 0x6b");
    assert_int_equal(stook_cache_validate(cache), 0);
    QUIET;
}

/* What is found when a slab goes. */
TEST_WITH(at_the_end, setup, NULL)
{
    struct stook_cache *cache = make(1000, FZPU);
    uint8_t *object = take(cache);

    stook_free(cache, object);
    object[5] = 5;
    (void)stook_cache_shrink(cache);
    SAID(1, "byte 5 is 0x05");
    unmake(cache);
}

static void construct(void *object, void *arg)
{
    memset(object, 0x77, 48);
}

/* A constructed object is as its user left it; its zones are checked. */
TEST_WITH(constructed, setup, NULL)
{
    struct stook_cache_args args = {.size = sizeof(args), .ctor = construct, .flags = FZPU};
    struct stook_cache *cache = stook_cache_create("built", 48, &args);
    uint8_t *object = take(cache);

    for (unsigned i = 0; i < 48; i++)
        assert_int_equal(object[i], 0x77);
    object[48] = 0;
    stook_free(cache, object);
    SAID(1, "right red zone");
    for (unsigned i = 0; i < 48; i++)
        assert_int_equal(object[i], 0x77);
    unmake(cache);
    QUIET;
}

/* Each letter alone does what it says and no more. */
TEST_WITH(letters, setup, NULL)
{
    struct stook_cache *cache = make(64, STOOK_CACHE_DEBUG_POISON);
    uint8_t *object = take(cache);

    assert_int_equal(cache->layout.lead, 0);
    stook_free(cache, object);
    object[1] = 0;
    assert_int_equal(stook_cache_validate(cache), 1);
    SAID(1, "was written to: byte 1 is 0x00");
    unmake(cache);
    cache = make(64, STOOK_CACHE_DEBUG_RED_ZONE);
    object = take(cache);
    memset(object, 0x33, 64);
    stook_free(cache, object);
    assert_int_equal(object[63], 0x33);
    object[64] = 0;
    assert_int_equal(stook_cache_validate(cache), 1);
    SAID(1, "right red zone");
    unmake(cache);
    cache = make(64, STOOK_CACHE_DEBUG_CHECKS);
    object = take(cache);
    (void)take(cache);
    stook_free(cache, object);
    stook_free(cache, object);
    SAID(1, "freed twice");
    QUIET;
}

/* ---- frees ---------------------------------------------------------------------------------- */

TEST_WITH(wrong_frees, setup, NULL)
{
    struct stook_cache *cache = make(64, FZPU), *other = make(64, FZPU);
    uint8_t *p = take(cache), *q = take(cache), *r = take(other), on_the_stack[64];
    uint8_t *volatile stack = on_the_stack;

    stook_free(cache, p);
    stook_free(cache, p);
    SAID(1, "freed twice");
    stook_free(cache, q);
    stook_free(cache, p);
    SAID(1, "freed twice");
    (void)take(other);
    stook_free(cache, r);
    SAID(1, "is of no slab of this cache");
    stook_free(other, r + 8);
    SAID(1, "start of an object");
    stook_free(cache, stack);
    SAID(1, "not of this library");
    stook_free_any(r);
    QUIET;
    stook_free_any(r);
    SAID(1, "freed twice");
    assert_int_equal(stook_cache_validate(cache), 0);
    assert_int_equal(stook_cache_validate(other), 0);
    unmake(cache);
    QUIET;
}

TEST_WITH(bulk, setup, NULL)
{
    struct stook_cache *cache = make(100, FZPU);
    void *objects[500], *twice[4];

    assert_int_equal(stook_alloc_bulk(cache, STOOK_ZERO, 500, objects), 0);
    for (unsigned i = 0; i < 500; i++) {
        for (unsigned k = 0; k < 100; k++)
            assert_int_equal(((uint8_t *)objects[i])[k], 0);
        memset(objects[i], (int)i, 100);
    }
    twice[0] = objects[3];
    twice[1] = objects[4];
    twice[2] = objects[3];
    twice[3] = (char *)objects[5] + 1;
    objects[3] = objects[4] = NULL;
    stook_free_bulk(cache, 4, twice);
    assert_int_equal(said.bugs, 2);
    said.bugs = 0;
    stook_free_bulk(cache, 500, objects);
    QUIET;
    assert_int_equal(stook_cache_validate(cache), 0);
    unmake(cache);
    QUIET;
}

TEST_WITH(of_a_node, setup, NULL)
{
    struct stook_cache *cache = make(100, FZPU);
    uint8_t *object = alloc_with_node(cache, STOOK_ZERO, 0);

    assert_non_null(object);
    for (unsigned k = 0; k < 100; k++)
        assert_int_equal(object[k], 0);
    stook_free(cache, object);
    unmake(cache);
    QUIET;
}

/* ---- reserves ------------------------------------------------------------------------------- */

TEST_WITH(reserves, setup, NULL)
{
    struct stook_cache *cache = make(64, FZPU);
    struct stook_sheaf *sheaf = stook_sheaf_prefill(cache, 0, 20);
    struct stook_pool *pool = stook_pool_create(cache, 4);
    uint8_t *object, *objects[6];

    assert_non_null(sheaf);
    assert_non_null(pool);
    assert_int_equal(stook_cache_validate(cache), 0);
    object = stook_sheaf_alloc(cache, 0, sheaf);
    memset(object, 1, 64);
    stook_free(cache, object);
    object = stook_sheaf_alloc(cache, STOOK_ZERO, sheaf);
    object[64] = 1;
    stook_free(cache, object);
    SAID(1, "right red zone");
    stook_sheaf_return(cache, sheaf);
    for (unsigned i = 0; i < 6; i++) {
        objects[i] = stook_pool_alloc(pool, 0, NULL);
        assert_non_null(objects[i]);
        memset(objects[i], 2, 64);
    }
    for (unsigned i = 0; i < 6; i++)
        stook_pool_free(pool, objects[i]);
    stook_pool_free(pool, objects[5]);
    SAID(1, "freed twice");
    assert_int_equal(stook_pool_destroy(pool), 0);
    assert_int_equal(stook_cache_validate(cache), 0);
    unmake(cache);
    QUIET;
}

/* An RCU whose grace periods end with a barrier. */
static struct stook_rcu_head *waiting;

static void hand_call(struct stook_rcu_head *head, void (*func)(struct stook_rcu_head *head))
{
    head->func = func;
    head->next = waiting;
    waiting = head;
}

static void hand_barrier(void)
{
    while (waiting) {
        struct stook_rcu_head *head = waiting;
        waiting = head->next;
        head->func(head);
    }
}

TEST_WITH(deferred, setup, NULL)
{
    static const struct stook_rcu_ops by_hand = {.size = sizeof(by_hand),
                                                 .call = hand_call,
                                                 .barrier = hand_barrier,
                                                 .synchronize = hand_barrier};
    struct stook_cache *cache = make(64, FZPU), *stable;
    uint8_t *object = take(cache);

    assert_int_equal(stook_rcu_set_ops(&by_hand), 0);
    memset(object, 9, 64);
    stook_free_rcu(cache, object);
    assert_int_equal(object[0], 9); /* readers may look at it */
    stook_free_rcu(cache, object);
    SAID(1, "freed twice");
    stook_free(cache, object);
    SAID(1, "freed twice");
    object[64] = 0;
    assert_int_equal(stook_cache_validate(cache), 1);
    SAID(1, "right red zone");
    stook_rcu_barrier();
    assert_int_equal(object[0], POISON_FREE);
    stook_free_rcu(cache, take(cache));
    unmake(cache); /* at once */
    stable = make(64, FZPU | STOOK_CACHE_TYPESAFE);
    object = take(stable);
    memset(object, 9, 64);
    stook_free(stable, object);
    assert_int_equal(object[0], 9);
    unmake(stable);
    QUIET;
}

/* ---- links ---------------------------------------------------------------------------------- */

/* A freelist with an error is taken out of its slab: its objects are never used again. */
TEST_WITH(links, setup, NULL)
{
    struct stook_cache *cache = make(64, FZPU);
    void *objects[32767];
    uint32_t n = cache->layout.objects, index;
    struct slab *slab;

    assert_int_equal(stook_alloc_bulk(cache, 0, n, objects), 0);
    slab = slab_find(cache, objects[5], &index);
    stook_free_bulk(cache, n - 1, objects + 1);
    assert_int_equal(stook_cache_validate(cache), 0);
    *slab_link(cache, slab, index) ^= 0x4000;
    assert_int_equal(stook_cache_validate(cache), 1);
    SAID(1, "corrupt freelist");
    assert_int_equal(stook_cache_validate(cache), 0);
    assert_int_equal(stook_alloc_bulk(cache, 0, n - 1, objects + 1), 0);
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < i; k++)
            assert_ptr_not_equal(objects[i], objects[k]);
    for (uint32_t i = 1; i < n; i++)
        assert_ptr_not_equal(slab_find(cache, objects[i], &index), slab);
    stook_free_bulk(cache, n, objects);
    assert_int_equal(stook_cache_validate(cache), 0);
    QUIET;
}

/* Met by an allocation: what is behind it stays out of use, and the cache goes on. */
TEST_WITH(link_met, setup, NULL)
{
    struct stook_cache *cache = make(64, FZPU);
    void *objects[32767];
    uint32_t n = cache->layout.objects, index;
    struct slab *slab;

    assert_int_equal(stook_alloc_bulk(cache, 0, n, objects), 0);
    slab = slab_find(cache, objects[5], &index);
    for (uint32_t i = 1; i < n; i++)
        stook_free(cache, objects[i]);
    *slab_link(cache, slab, index) ^= 0x4000;
    assert_int_equal(stook_alloc_bulk(cache, 0, n, objects + 1), 0);
    SAID(1, "corrupt freelist");
    stook_free_bulk(cache, n + 1, objects);
    assert_int_equal(stook_cache_validate(cache), 0);
    QUIET;
}

/* Of a cache without debug flags a validation reports, and the next one finds nothing when all is well. */
TEST_WITH(plain, setup, NULL)
{
    struct stook_cache *cache = make(64, STOOK_CACHE_NOSHEAF);

    stook_free(cache, take(cache));
    (void)take(cache);
    assert_int_equal(stook_cache_validate(cache), 0);
    assert_int_equal(stook_cache_validate(NULL), 0);
    QUIET;
}

/* ---- sizes ---------------------------------------------------------------------------------- */

static struct stook_cache *class_of(size_t size)
{
    struct stook_cache_args args = {.size = sizeof(args), .align = 32, .flags = FZPU | CACHE_SIZED};

    return private_cache("sized", size, &args, true);
}

static uint8_t *ask(struct stook_cache *cache, size_t size, enum debug_call call, unsigned flags)
{
    struct debug_asks before = debug_ask((struct debug_asks){size, call, NULL});
    void *object = stook_alloc(cache, flags);

    (void)debug_ask(before);
    return object;
}

TEST_WITH(sizes, setup, NULL)
{
    struct stook_cache *cache = class_of(32);
    uint8_t *object = ask(cache, 18, DEBUG_CALL_ANY, STOOK_ZERO);
    struct debug_asks before;

    assert_int_equal(stook_usable_size(object), 18);
    assert_int_equal(object[17], 0);
    assert_int_equal(object[18], ZONE_LIVE);
    object[18] = object[19] = 0x5a;
    stook_free_any(object);
    SAID(1, "0 behind the 18 bytes");
    object = ask(cache, 18, DEBUG_CALL_ANY, 0);
    debug_resize(cache, object, 10);
    object[17] = 0;
    debug_resize(cache, object, 32);
    SAID(1, "7 behind the 10 bytes");
    memset(object, 1, 32);
    stook_free_any(object);
    QUIET;
    object = ask(cache, 18, DEBUG_CALL_NEW_ARRAY, 0);
    stook_private_free(cache, object, STOOK_PRIVATE_MALLOC, 0, 0);
    SAID(1, "allocated by operator new[], freed by free");
    object = ask(cache, 18, DEBUG_CALL_NEW, 0);
    stook_private_free(cache, object, STOOK_PRIVATE_NEW, 19, 0);
    SAID(1, "18 bytes is freed as one of 19");
    object = ask(cache, 18, DEBUG_CALL_NEW, 0);
    stook_private_free(cache, object, STOOK_PRIVATE_NEW, 18, 0);
    /* A handler that frees another object while one is being freed. */
    object = ask(cache, 18, DEBUG_CALL_NEW, 0);
    before = debug_ask((struct debug_asks){19, DEBUG_CALL_MALLOC, cache});
    stook_free_any(object);
    (void)debug_ask(before);
    unmake(cache);
    QUIET;
}

/* ---- a cache's end -------------------------------------------------------------------------- */

TEST_WITH(destroyed, setup, NULL)
{
    struct stook_cache *cache = make(64, FZPU);
    void *object = take(cache), *other = take(cache), *objects[2];

    assert_int_equal(stook_cache_destroy(cache), -1);
    assert_int_equal(errno, EBUSY);
    SAID(2, "still in use"); /* each object; of the cache one line, which is no report */
    stook_free(cache, object);
    stook_free(cache, other);
    unmake(cache);
    QUIET;
    assert_null(stook_alloc(cache, 0));
    SAID(1, "destroyed");
    assert_int_equal(stook_alloc_bulk(cache, 0, 2, objects), -1);
    SAID(1, "destroyed");
    stook_free(cache, object);
    SAID(1, "destroyed");
    assert_int_equal(stook_cache_destroy(cache), -1);
    SAID(1, "destroyed");
    assert_int_equal(stook_cache_shrink(cache), 0);
    SAID(1, "destroyed");
    assert_int_equal(stook_cache_validate(cache), -1);
    SAID(1, "destroyed");
}

/* ---- failing, tracing ----------------------------------------------------------------------- */

TEST_WITH(failing, setup, NULL)
{
    struct stook_cache *cache = make(64, STOOK_CACHE_DEBUG_FAIL), *other = make(64, FZPU);
    unsigned failed = 0;
    void *objects[10];

    assert_false(fail_read("1,100,0"));
    assert_false(fail_read("0,100,0,-1"));
    assert_false(fail_read("1,101,0,-1"));
    assert_false(fail_read("1,100,0,-1x"));
    assert_true(fail_read("3,100,0,2"));
    for (unsigned i = 1; i <= 12; i++) {
        void *object = stook_alloc(cache, 0);
        assert_int_equal(object == NULL, i == 3 || i == 6);
        assert_true(object || errno == ENOMEM);
        failed += !object;
    }
    assert_int_equal(failed, 2);
    assert_true(fail_read("1,100,128,-1"));
    assert_non_null(stook_alloc(cache, 0));
    assert_non_null(stook_alloc(cache, 0));
    assert_null(stook_alloc(cache, 0));
    assert_int_equal(stook_alloc_bulk(cache, 0, 10, objects), -1);
    assert_non_null(stook_alloc(other, 0));
    assert_true(fail_read("1,50,0,-1"));
    failed = 0;
    for (unsigned i = 0; i < 1000; i++)
        failed += stook_alloc(cache, 0) == NULL;
    assert_in_range(failed, 300, 700);
    assert_true(fail_read("1,0,0,0"));
    assert_non_null(stook_alloc(cache, 0));
    QUIET;
}

TEST_WITH(tracing, setup, NULL)
{
    struct stook_cache *cache = make(64, STOOK_CACHE_DEBUG_TRACE);

    said.others = 0;
    stook_free(cache, take(cache));
    assert_int_equal(said.others, 2);
    unmake(cache);
}

/* What changes nothing of the layout can be switched while the cache is in use, and is seen by its name. */
TEST_WITH(switched, setup, NULL)
{
    struct stook_cache *cache = make(64, FZPU), *plain = make(64, 0);
    void *object;

    said.others = 0;
    object = take(cache);
    assert_int_equal(stook_cache_debug_set(cache, STOOK_CACHE_DEBUG_TRACE, 1), 0);
    assert_int_equal(stook_cache_debug_set(cache, STOOK_CACHE_DEBUG_TRACE, 1), 0); /* no toggle */
    assert_true(debug_of(cache) & STOOK_CACHE_DEBUG_TRACE);
    stook_free(cache, object);
    assert_int_equal(said.others, 1);
    assert_int_equal(stook_cache_debug_set(cache, STOOK_CACHE_DEBUG_FAIL, 1), 0);
    assert_true(fail_read("1,100,0,-1"));
    assert_null(stook_alloc(cache, 0));
    assert_int_equal(
        stook_cache_debug_set(cache, STOOK_CACHE_DEBUG_FAIL | STOOK_CACHE_DEBUG_TRACE, 0), 0);
    said.others = 0;
    stook_free(cache, take(cache));
    assert_int_equal(said.others, 0);
    assert_false(debug_of(cache) & STOOK_CACHE_DEBUG_TRACE);
    assert_true(debug_of(cache) & STOOK_CACHE_DEBUG_RED_ZONE);
    assert_int_equal(stook_cache_debug_set(cache, STOOK_CACHE_DEBUG_POISON, 0), -1);
    assert_int_equal(errno, EINVAL);
    assert_int_equal(stook_cache_debug_set(plain, STOOK_CACHE_DEBUG_TRACE, 1), -1);
    assert_int_equal(errno, EOPNOTSUPP);
    assert_true(fail_read("1,0,0,0"));
    unmake(cache);
    unmake(plain);
}

/* ---- others --------------------------------------------------------------------------------- */

enum { THREADS = 4, ROUNDS = 3000 };
static struct stook_cache *shared;
static atomic_bool over;

static void *churn(void *arg)
{
    void *objects[16] = {0};
    unsigned random = (unsigned)(uintptr_t)arg;

    for (unsigned i = 0; i < ROUNDS; i++) {
        unsigned at = (random = random * 1664525 + 1013904223) >> 16 & 15;
        if (objects[at])
            stook_free(shared, objects[at]);
        objects[at] = stook_alloc(shared, 0);
        memset(objects[at], (int)i, 72);
    }
    stook_free_bulk(shared, 16, objects);
    return NULL;
}

static void *validate(void *arg)
{
    while (!over)
        assert_int_equal(stook_cache_validate(arg), 0);
    return NULL;
}

/* Nothing false is found while threads use the cache. */
TEST_WITH(crowd, setup, NULL)
{
    pthread_t thread[THREADS], validator;

    shared = make(72, FZPU);
    assert_int_equal(pthread_create(&validator, NULL, validate, shared), 0);
    for (uintptr_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, churn, (void *)(i + 1)), 0);
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    over = true;
    pthread_join(validator, NULL);
    unmake(shared);
    QUIET;
}
