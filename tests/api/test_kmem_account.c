/* SPDX-License-Identifier: MIT */
/*
 * __GFP_ACCOUNT of a cache without SLAB_ACCOUNT: such objects are charged to the thread's group, each by each, and all
 * frees know them.  SLAB_ACCOUNT: every object is charged.
 */
#include <stook/group.h>
#include <stook/kmem.h>

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

enum { SIZE = 200 };

static struct stook_group group;

static uint64_t usage(void)
{
    struct stook_group_stat stat = {.size = sizeof(stat)};

    assert_int_equal(stook_group_stat(group, &stat), 0);
    return stat.usage;
}

static int enter(void **unused)
{
    (void)unused;
    group = stook_group_create("account", STOOK_NO_GROUP, STOOK_UNLIMITED);
    (void)stook_group_enter(group);
    return 0;
}

static int leave(void **unused)
{
    (void)unused;
    assert_int_equal(usage(), 0);
    stook_group_leave(STOOK_NO_GROUP);
    stook_group_destroy(group);
    return 0;
}

static void a_charge_is_seen_and_goes(void **unused)
{
    struct kmem_cache *cache = kmem_cache_create("some", SIZE, 0, 0, NULL);
    void *charged, *free_of_charge = kmem_cache_alloc(cache, GFP_KERNEL);

    (void)unused;
    assert_int_equal(usage(), 0);
    charged = kmem_cache_alloc(cache, GFP_KERNEL_ACCOUNT);
    assert_true(usage() >= SIZE);
    assert_true(ksize(charged) >= SIZE);
    memset(charged, 1, SIZE);
    memset(free_of_charge, 2, SIZE);
    kmem_cache_free(cache, charged);
    assert_int_equal(usage(), 0);
    kmem_cache_free(cache, free_of_charge);
    assert_int_equal(usage(), 0);
    charged = kmem_cache_zalloc(cache, GFP_KERNEL_ACCOUNT);
    for (int i = 0; i < SIZE; i++)
        assert_int_equal(((char *)charged)[i], 0);
    assert_true(usage() >= SIZE);
    kfree(charged);
    assert_int_equal(usage(), 0);
    kmem_cache_destroy(cache);
}

/* Both kinds in turns, and more than sheaves hold: none is handed out as one of the other kind. */
static void kinds_stay_apart(void **unused)
{
    enum { MANY = 3000 };
    static void *objects[MANY];
    struct kmem_cache *cache = kmem_cache_create("apart", SIZE, 0, 0, NULL);
    uint64_t one, before;

    (void)unused;
    for (int round = 0; round < 4; round++) {
        for (int i = 0; i < MANY; i++) {
            before = usage();
            objects[i] = kmem_cache_alloc(cache, i % 3 ? GFP_KERNEL_ACCOUNT : GFP_KERNEL);
            assert_non_null(objects[i]);
            assert_true(i % 3 ? usage() >= before + SIZE : usage() == before);
            memset(objects[i], i & 127, SIZE);
        }
        for (int i = 0; i < MANY; i++) {
            int at = (int)((unsigned)i * 7919u % MANY);
            assert_int_equal(((char *)objects[at])[SIZE - 1], at & 127);
            one = usage();
            if (i % 2)
                kmem_cache_free(cache, objects[at]);
            else
                kfree(objects[at]);
            assert_true(at % 3 ? usage() + SIZE <= one : usage() == one);
        }
        assert_int_equal(usage(), 0);
    }
    assert_int_equal(kmem_cache_shrink(cache), 0);
    kmem_cache_destroy(cache);
}

static void in_bulk(void **unused)
{
    struct kmem_cache *cache = kmem_cache_create("bulk", SIZE, 0, 0, NULL);
    void *mixed[60];

    (void)unused;
    assert_true(kmem_cache_alloc_bulk(cache, GFP_KERNEL_ACCOUNT, 30, mixed));
    assert_true(usage() >= 30 * SIZE);
    assert_true(kmem_cache_alloc_bulk(cache, GFP_KERNEL, 30, mixed + 30));
    for (int i = 0; i < 30; i += 2) {
        void *other = mixed[i];
        mixed[i] = mixed[59 - i];
        mixed[59 - i] = other;
    }
    kmem_cache_free_bulk(cache, 60, mixed);
    assert_int_equal(usage(), 0);
    mixed[0] = kmem_cache_alloc_node(cache, GFP_KERNEL_ACCOUNT, 0);
    assert_true(usage() >= SIZE);
    kmem_cache_free(cache, mixed[0]);
    kmem_cache_destroy(cache);
}

static void a_limit_is_null(void **unused)
{
    struct kmem_cache *cache = kmem_cache_create("limited", SIZE, 0, 0, NULL);
    void *objects[200], *beyond;
    int n = 0;

    (void)unused;
    assert_int_equal(stook_group_set_limit(group, 100 * SIZE), 0);
    while (n < 200 && (objects[n] = kmem_cache_alloc(cache, GFP_KERNEL_ACCOUNT)) != NULL)
        n++;
    assert_true(n > 0 && n <= 100);
    assert_int_equal(errno, EDQUOT);
    assert_non_null(beyond = kmem_cache_alloc(cache, GFP_KERNEL)); /* it is not charged */
    kmem_cache_free(cache, beyond);
    assert_non_null(beyond = kmem_cache_alloc(cache, GFP_KERNEL_ACCOUNT | __GFP_NOFAIL));
    assert_true(usage() <= 100 * SIZE);
    kmem_cache_free(cache, beyond);
    kmem_cache_free(cache, objects[--n]);
    assert_non_null(objects[n] = kmem_cache_alloc(cache, GFP_KERNEL_ACCOUNT));
    n++;
    kmem_cache_free_bulk(cache, (size_t)n, objects);
    assert_int_equal(usage(), 0);
    assert_int_equal(stook_group_set_limit(group, STOOK_UNLIMITED), 0);
    kmem_cache_destroy(cache);
}

/* A thread of no group makes no second cache, and charges nothing. */
static int count(struct stook_cache *cache, void *n)
{
    *(int *)n += strncmp(stook_cache_name(cache), "uncharged", 9) == 0;
    return 0;
}

static void no_group_no_charge(void **unused)
{
    struct kmem_cache *cache = kmem_cache_create("uncharged", SIZE, 0, 0, NULL);
    void *object;
    int n = 0;

    (void)unused;
    stook_group_leave(STOOK_NO_GROUP);
    object = kmem_cache_alloc(cache, GFP_KERNEL_ACCOUNT);
    (void)stook_group_enter(group);
    assert_int_equal(usage(), 0);
    stook_cache_each(count, &n);
    assert_int_equal(n, 1);
    kmem_cache_free(cache, object);
    object = kmem_cache_alloc(cache, GFP_KERNEL_ACCOUNT);
    stook_cache_each(count, (n = 0, &n));
    assert_int_equal(n, 2);
    kmem_cache_free(cache, object);
    kmem_cache_destroy(cache);
    stook_cache_each(count, (n = 0, &n));
    assert_int_equal(n, 0);
}

static void made(void *object)
{
    memset(object, 0x77, SIZE);
}

static void constructed_objects(void **unused)
{
    struct kmem_cache *cache = kmem_cache_create("made", SIZE, 64, 0, made);
    char *object = kmem_cache_alloc(cache, GFP_KERNEL_ACCOUNT);

    (void)unused;
    assert_int_equal((uintptr_t)object % 64, 0);
    assert_int_equal(object[SIZE - 1], 0x77);
    kmem_cache_free(cache, object);
    kmem_cache_destroy(cache);
}

static void slab_account_charges_all(void **unused)
{
    struct kmem_cache *cache = kmem_cache_create("all", SIZE, 0, SLAB_ACCOUNT, NULL);
    void *one = kmem_cache_alloc(cache, GFP_KERNEL), *other;
    uint64_t each = usage();

    (void)unused;
    assert_true(each >= SIZE);
    other = kmem_cache_alloc(cache, GFP_KERNEL_ACCOUNT);
    assert_int_equal(usage(), 2 * each);
    kmem_cache_free(cache, one);
    kmem_cache_free(cache, other);
    kmem_cache_destroy(cache);
}

/* Threads that make the first charged object of a cache at once, and free what others allocated. */
enum { THREADS = 4, EACH = 400 };
static struct kmem_cache *shared;
static void *_Atomic handed[THREADS][EACH];
static pthread_barrier_t barrier;

static void *crowd(void *number)
{
    uintptr_t me = (uintptr_t)number;

    (void)stook_group_enter(group);
    pthread_barrier_wait(&barrier);
    for (int i = 0; i < EACH; i++) {
        void *object =
            kmem_cache_alloc(shared, (i ^ (int)me) & 1 ? GFP_KERNEL_ACCOUNT : GFP_KERNEL);
        *(uintptr_t *)object = me;
        handed[me][i] = object;
    }
    pthread_barrier_wait(&barrier);
    for (int i = 0; i < EACH; i++) {
        void *object = handed[(me + 1) % THREADS][i];
        if (*(uintptr_t *)object == (me + 1) % THREADS)
            kmem_cache_free(shared, object);
    }
    return NULL;
}

static void a_crowd(void **unused)
{
    pthread_t thread[THREADS];

    (void)unused;
    for (int round = 0; round < 20; round++) {
        shared = kmem_cache_create("shared", SIZE, 0, 0, NULL);
        pthread_barrier_init(&barrier, NULL, THREADS);
        for (uintptr_t i = 0; i < THREADS; i++)
            assert_int_equal(pthread_create(&thread[i], NULL, crowd, (void *)i), 0);
        for (int i = 0; i < THREADS; i++)
            pthread_join(thread[i], NULL);
        assert_int_equal(usage(), 0);
        assert_int_equal(stook_cache_destroy(kmem_stook_cache(shared)), 0);
        pthread_barrier_destroy(&barrier);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_charge_is_seen_and_goes, enter, leave),
        cmocka_unit_test_setup_teardown(kinds_stay_apart, enter, leave),
        cmocka_unit_test_setup_teardown(in_bulk, enter, leave),
        cmocka_unit_test_setup_teardown(a_limit_is_null, enter, leave),
        cmocka_unit_test_setup_teardown(no_group_no_charge, enter, leave),
        cmocka_unit_test_setup_teardown(constructed_objects, enter, leave),
        cmocka_unit_test_setup_teardown(slab_account_charges_all, enter, leave),
        cmocka_unit_test_setup_teardown(a_crowd, enter, leave),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
