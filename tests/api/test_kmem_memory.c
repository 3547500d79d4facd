/* SPDX-License-Identifier: MIT */
/* needs: native */
/*
 * The kernel's names where memory is short (an arena of 32 MiB): the effect of each gfp_t then, calls that
 * must not fail, and pools that make progress.
 */
#include "support/environment.h"
#include "support/test.h"

#include <stook/kmem.h>
#include <stook/reserve.h>

#include <pthread.h>
#include <stdatomic.h>

/* All that there is, in a list through its first words. */
struct hoard {
    struct hoard *next;
};
static struct hoard *hoard;

static size_t hoard_all(void)
{
    size_t n = 0;

    for (size_t size = 1 << 20; size >= 4096; size /= 2) {
        struct hoard *more;
        while ((more = kmalloc(size, GFP_NOWAIT)) != NULL) {
            more->next = hoard;
            hoard = more;
            n += size;
        }
    }
    return n;
}

static void hoard_free(void)
{
    while (hoard) {
        struct hoard *gone = hoard;
        hoard = gone->next;
        kfree(gone);
    }
}

static unsigned reclaims;

static size_t reclaim(size_t wanted, void *unused)
{
    reclaims++;
    hoard_free();
    return 1 << 20;
}

/* Callbacks run for GFP_KERNEL alone: others cannot bear that. */
TEST(who_reclaims)
{
    const gfp_t gentle[] = {GFP_NOIO, GFP_NOFS, GFP_ATOMIC, GFP_NOWAIT, 0};
    struct kmem_cache *cache = kmem_cache_create("large", 65536, 0, 0, NULL);
    struct slab_sheaf *sheaf;
    void *object, *objects[20];

    assert_int_equal(stook_reclaim_register(reclaim, NULL), 0);
    assert_true(hoard_all() > 8 << 20);
    for (size_t i = 0; i < sizeof(gentle) / sizeof(gentle[0]); i++) {
        errno = 0;
        assert_null(kmem_cache_alloc(cache, gentle[i]));
        assert_int_equal(errno, ENOMEM);
        assert_null(kmalloc(1 << 20, gentle[i]));
        assert_false(kmem_cache_alloc_bulk(cache, gentle[i], 20, objects));
        assert_null(kmem_cache_prefill_sheaf(cache, gentle[i], 20));
    }
    assert_int_equal(reclaims, 0);
    errno = 5;
    assert_non_null(object = kmalloc(1 << 20, GFP_KERNEL));
    assert_int_equal(errno, 5);
    assert_int_equal(reclaims, 1);
    kfree(object);
    hoard_all();
    assert_non_null(object = kmem_cache_alloc(cache, GFP_KERNEL));
    assert_int_equal(reclaims, 2);
    kfree(object);
    hoard_all();
    assert_true(kmem_cache_alloc_bulk(cache, GFP_KERNEL, 20, objects));
    assert_int_equal(reclaims, 3);
    kmem_cache_free_bulk(cache, 20, objects);
    (void)kmem_cache_shrink(cache);
    hoard_all();
    assert_non_null(sheaf = kmem_cache_prefill_sheaf(cache, GFP_KERNEL, 30));
    assert_int_equal(reclaims, 4);
    kmem_cache_return_sheaf(cache, GFP_KERNEL, sheaf);
    hoard_free();
    assert_int_equal(stook_reclaim_unregister(reclaim, NULL), 0);
    kmem_cache_destroy(cache);
}

static atomic_bool naps;

/* Gives back what is hoarded once the other one has been without for a while. */
static void *helper(void *unused)
{
    while (!atomic_load(&naps))
        usleep(100);
    usleep(20000);
    hoard_free();
    return NULL;
}

TEST(what_must_not_fail)
{
    const gfp_t must[] = {GFP_KERNEL | __GFP_NOFAIL, GFP_NOFS | __GFP_NOFAIL};
    struct kmem_cache *cache = kmem_cache_create("large", 65536, 0, 0, NULL);
    void *objects[20];

    for (int i = 0; i < 8; i++) {
        struct slab_sheaf *sheaf;
        gfp_t gfp = must[i % 2];
        pthread_t thread;
        atomic_store(&naps, false);
        assert_int_equal(pthread_create(&thread, NULL, helper, NULL), 0);
        hoard_all();
        assert_null(kmem_cache_alloc(cache, GFP_NOWAIT | __GFP_NOFAIL)); /* it may not wait */
        atomic_store(&naps, true);
        switch (i / 2) {
        case 0:
            kfree(objects[0] = kmalloc(1 << 20, gfp));
            assert_non_null(objects[0]);
            break;
        case 1:
            assert_non_null(objects[0] = kmem_cache_zalloc(cache, gfp));
            kmem_cache_free(cache, objects[0]);
            break;
        case 2:
            assert_true(kmem_cache_alloc_bulk(cache, gfp, 20, objects));
            kmem_cache_free_bulk(cache, 20, objects);
            break;
        default:
            assert_non_null(sheaf = kmem_cache_prefill_sheaf(cache, gfp, 20));
            kmem_cache_return_sheaf(cache, gfp, sheaf);
            break;
        }
        pthread_join(thread, NULL);
        (void)kmem_cache_shrink(cache);
    }
    kmem_cache_destroy(cache);
}

/* Nothing is left anywhere: the reserve is, and then what comes back. */
TEST(pools_go_on)
{
    struct kmem_cache *cache = kmem_cache_create("bio", 65536, 0, 0, NULL);
    mempool_t *pool = mempool_create_slab_pool(8, cache);
    void *element[9];

    assert_non_null(pool);
    hoard_all();
    while (kmem_cache_alloc(cache, GFP_NOWAIT)) /* the sheaves' too; forgotten */
        ;
    for (int round = 0; round < 100; round++) {
        for (int i = 0; i < 8; i++)
            assert_non_null(element[i] = mempool_alloc(pool, round % 2 ? GFP_NOIO : GFP_ATOMIC));
        assert_null(mempool_alloc(pool, GFP_NOWAIT));
        for (int i = 0; i < 8; i++)
            mempool_free(element[i], pool);
    }
    assert_true(mempool_is_saturated(pool));
    mempool_destroy(pool);
    hoard_free();
}

/* Shrinking needs no memory; growing fails and leaves the object. */
TEST(krealloc_without_memory)
{
    char *small = kmalloc(8192, GFP_KERNEL), *large = kmalloc(200000, GFP_KERNEL);

    small[0] = large[0] = 'k';
    hoard_all();
    while (kmalloc(8192, GFP_NOWAIT)) /* forgotten */
        ;
    errno = 0;
    assert_null(krealloc(small, 16 << 20, GFP_KERNEL));
    assert_int_equal(errno, ENOMEM);
    assert_null(krealloc(large, 30 << 20, GFP_NOWAIT));
    assert_true(small[0] == 'k' && large[0] == 'k');
    while (kmalloc(100, GFP_NOWAIT)) /* nothing that it could shrink into */
        ;
    assert_ptr_equal(krealloc(large, 100, GFP_NOWAIT), large);
    assert_ptr_equal(krealloc(small, 1, GFP_NOWAIT), small);
    errno = 0;
    assert_null(stook_krealloc(large, 100, 0x4000)); /* which is no reason to succeed */
    assert_int_equal(errno, EINVAL);
    assert_true(small[0] == 'k' && large[0] == 'k');
    kfree(small);
    kfree(large);
    hoard_free();
}

TESTS_WITH_SETTING("STOOK_ARENA", "32M")
