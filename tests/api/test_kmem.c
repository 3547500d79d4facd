/* SPDX-License-Identifier: MIT */
/*
 * The kernel's names for caches, objects, bulk calls and prefilled sheaves: each does what the
 * kernel's documentation says of it.
 */
#include "support/test.h"

#include <stook/kmem.h>

struct thing {
    uint64_t number;
    char name[56];
};

struct aligned_thing {
    _Alignas(128) char bytes[200];
};

static void construct(void *object)
{
    ((struct thing *)object)->number = 4711;
}

/* ---- making caches --------------------------------------------------------------------------- */

TEST(created_in_both_forms)
{
    struct kmem_cache_args args = {.align = 256, .ctor = construct, .sheaf_capacity = 17};
    struct kmem_cache *old = kmem_cache_create("old", sizeof(struct thing), 128, 0, construct);
    struct kmem_cache *new = kmem_cache_create("new", sizeof(struct thing), &args, 0);
    struct kmem_cache *none = kmem_cache_create("none", sizeof(struct thing), NULL, 0);
    struct kmem_cache *bare = kmem_cache_create("bare", sizeof(struct thing), 0, 0, NULL);
    struct kmem_cache *literal = kmem_cache_create(
        "literal", 40, (&(struct kmem_cache_args){.align = 64, .ctor = NULL}), SLAB_ACCOUNT);
    struct kmem_cache *caches[] = {old, new, none, bare, literal};
    const size_t aligned[] = {128, 256, 8, 8, 64};

    for (int i = 0; i < 5; i++) {
        struct thing *thing;
        assert_non_null(caches[i]);
        thing = kmem_cache_alloc(caches[i], GFP_KERNEL);
        assert_non_null(thing);
        assert_int_equal((uintptr_t)thing % aligned[i], 0);
        if (i < 2)
            assert_int_equal(thing->number, 4711);
        assert_int_equal(kmem_cache_size(caches[i]), i == 4 ? 40 : sizeof(struct thing));
        kmem_cache_free(caches[i], thing);
        kmem_cache_destroy(caches[i]);
    }
    kmem_cache_destroy(NULL);
}

TEST(created_of_a_struct)
{
    struct kmem_cache *cache = KMEM_CACHE(aligned_thing, SLAB_RECLAIM_ACCOUNT | SLAB_ACCOUNT);
    struct kmem_cache *user = KMEM_CACHE_USERCOPY(thing, SLAB_NO_MERGE, name);
    struct kmem_cache *again = kmem_cache_create_usercopy("thing", 24, 8, 0, 8, 8, NULL);
    void *object;

    assert_non_null(cache);
    assert_non_null(user);
    assert_non_null(again);
    assert_int_equal(kmem_cache_size(cache), sizeof(struct aligned_thing));
    assert_int_equal(kmem_cache_size(user), sizeof(struct thing));
    object = kmem_cache_alloc(cache, GFP_KERNEL);
    assert_int_equal((uintptr_t)object % 128, 0);
    kmem_cache_free(cache, object);
    kmem_cache_destroy(cache);
    kmem_cache_destroy(user);
    kmem_cache_destroy(again);
}

TEST(flags_of_caches)
{
    const slab_flags_t accepted[] = {
        SLAB_NO_MERGE,    SLAB_ACCOUNT,     SLAB_RECLAIM_ACCOUNT,    SLAB_TEMPORARY,
        SLAB_POISON,      SLAB_NOLEAKTRACE, SLAB_CONSISTENCY_CHECKS, SLAB_RED_ZONE,
        SLAB_TRACE,       SLAB_STORE_USER,  SLAB_FAILSLAB,           SLAB_CACHE_DMA,
        SLAB_CACHE_DMA32, SLAB_KASAN,       SLAB_DEBUG_OBJECTS,      SLAB_NO_USER_FLAGS,
        SLAB_MEM_SPREAD,  SLAB_PANIC,       SLAB_HWCACHE_ALIGN,
    };
    struct kmem_cache *cache, *twin;
    void *a, *b;

    for (size_t i = 0; i < sizeof(accepted) / sizeof(accepted[0]); i++) {
        for (size_t j = 0; j < i; j++)
            assert_true(accepted[i] == accepted[j] || !(accepted[i] & accepted[j]));
        cache = kmem_cache_create("flags", 40, 0, accepted[i], NULL);
        assert_non_null(cache);
        kmem_cache_destroy(cache);
    }
    cache = kmem_cache_create("lines", 40, 0, SLAB_HWCACHE_ALIGN, NULL);
    a = kmem_cache_alloc(cache, GFP_KERNEL);
    b = kmem_cache_alloc(cache, GFP_KERNEL);
    assert_int_equal(((uintptr_t)a | (uintptr_t)b) % 64, 0);
    /* A cache of the same layout is another cache: nothing is merged. */
    twin = kmem_cache_create("lines", 40, 0, SLAB_HWCACHE_ALIGN, NULL);
    assert_ptr_not_equal(cache, twin);
    kmem_cache_free(cache, a);
    kmem_cache_free(cache, b);
    kmem_cache_destroy(cache);
    kmem_cache_destroy(twin);
    /* No RCU was set in this process. */
    errno = 0;
    assert_null(kmem_cache_create("stable", 40, 0, SLAB_TYPESAFE_BY_RCU, NULL));
    assert_int_equal(errno, ENOTSUP);
    assert_null(kmem_cache_create("crooked", 40, 24, 0, NULL));
    assert_null(kmem_cache_create("wide", 40, (size_t)1 << 40, 0, NULL));
    assert_null(kmem_cache_create("large", (size_t)STOOK_OBJECT_SIZE_MAX + 1, 0, 0, NULL));
    assert_null(kmem_cache_create("nothing", 0, 0, 0, NULL));
    assert_null(kmem_cache_create(NULL, 8, 0, 0, NULL));
}

/* ---- objects --------------------------------------------------------------------------------- */

TEST(zeros)
{
    struct kmem_cache *cache = KMEM_CACHE(thing, 0);
    struct kmem_cache *made = kmem_cache_create("made", 64, 0, 0, construct);
    static const char nothing[sizeof(struct thing)];
    struct thing *thing;

    for (int i = 0; i < 100; i++) {
        thing = kmem_cache_alloc(cache, GFP_KERNEL);
        memset(thing, 0xa5, sizeof(*thing));
        kmem_cache_free(cache, thing);
        thing = i % 2 ? kmem_cache_zalloc(cache, GFP_KERNEL)
                      : kmem_cache_alloc(cache, GFP_NOWAIT | __GFP_ZERO);
        assert_memory_equal(thing, nothing, sizeof(nothing));
        kmem_cache_free(cache, thing);
    }
    /* A constructed object that is all zeros would not be constructed. */
    errno = 0;
    assert_null(kmem_cache_zalloc(made, GFP_KERNEL));
    assert_int_equal(errno, EINVAL);
    errno = 0;
    assert_null(kmem_cache_alloc(made, GFP_KERNEL | __GFP_ZERO | __GFP_NOFAIL));
    assert_int_equal(errno, EINVAL);
    kmem_cache_destroy(cache);
    kmem_cache_destroy(made);
}

TEST(ways_to_allocate)
{
    const gfp_t ways[] = {GFP_KERNEL,
                          GFP_ATOMIC,
                          GFP_NOWAIT,
                          GFP_NOIO,
                          GFP_NOFS,
                          GFP_USER,
                          GFP_KERNEL | __GFP_NOFAIL,
                          __GFP_NOWARN,
                          0,
                          GFP_KERNEL_ACCOUNT,
                          GFP_KERNEL | __GFP_RETRY_MAYFAIL | __GFP_COMP | __GFP_THISNODE |
                              __GFP_NORETRY};
    struct kmem_cache *cache = KMEM_CACHE(thing, 0);

    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
        void *objects[] = {kmem_cache_alloc(cache, ways[i]),
                           kmem_cache_alloc_lru(cache, NULL, ways[i]),
                           kmem_cache_alloc_node(cache, ways[i], NUMA_NO_NODE),
                           kmem_cache_alloc_node(cache, ways[i], 0)};
        for (int k = 0; k < 4; k++) {
            assert_non_null(objects[k]);
            assert_true(ksize(objects[k]) >= sizeof(struct thing));
            if (k % 2)
                kfree(objects[k]); /* by its address alone */
            else
                kmem_cache_free(cache, objects[k]);
        }
    }
    kmem_cache_free(cache, NULL);
    /* All came back: else this would say EBUSY. */
    assert_int_equal(stook_cache_destroy(kmem_stook_cache(cache)), 0);
}

/* What can be borne of each, in Stook's words. */
TEST(meaning_of_gfp)
{
    assert_int_equal(kmem_stook_flags(GFP_KERNEL), STOOK_WAIT);
    assert_int_equal(kmem_stook_flags(GFP_HIGHUSER_MOVABLE), STOOK_WAIT);
    assert_int_equal(kmem_stook_flags(GFP_KERNEL & ~__GFP_KSWAPD_RECLAIM), STOOK_WAIT);
    assert_int_equal(kmem_stook_flags(GFP_KERNEL | __GFP_ZERO), STOOK_WAIT | STOOK_ZERO);
    assert_int_equal(kmem_stook_flags(GFP_NOFS), STOOK_NORECLAIM);
    assert_int_equal(kmem_stook_flags(GFP_NOIO), STOOK_NORECLAIM);
    assert_int_equal(kmem_stook_flags(GFP_KERNEL & ~__GFP_DIRECT_RECLAIM), STOOK_NORECLAIM);
    assert_int_equal(kmem_stook_flags(GFP_NOWAIT | __GFP_ZERO), STOOK_NORECLAIM | STOOK_ZERO);
    assert_int_equal(kmem_stook_flags(GFP_ATOMIC), STOOK_NORECLAIM);
    assert_int_equal(kmem_stook_flags(__GFP_NOWARN | __GFP_ACCOUNT), STOOK_SIGNAL_SAFE);
    assert_int_equal(kmem_stook_flags(0), STOOK_SIGNAL_SAFE);
    assert_true(gfpflags_allow_blocking(GFP_NOIO) && gfpflags_allow_blocking(GFP_KERNEL));
    assert_false(gfpflags_allow_blocking(GFP_ATOMIC) || gfpflags_allow_blocking(GFP_NOWAIT));
    assert_true(gfpflags_allow_spinning(GFP_ATOMIC) && !gfpflags_allow_spinning(__GFP_NOWARN));
}

TEST(bulk)
{
    enum { N = 300 };
    struct kmem_cache *cache = KMEM_CACHE(thing, 0);
    void *objects[N] = {NULL};

    assert_false(kmem_cache_alloc_bulk(cache, GFP_KERNEL, 0, objects));
    assert_false(kmem_cache_alloc_bulk(cache, GFP_KERNEL | __GFP_NOFAIL, (size_t)-1, objects));
    assert_null(objects[0]);
    for (size_t n = 1; n <= N; n = n * 3 - 1) {
        assert_true(kmem_cache_alloc_bulk(cache, GFP_KERNEL | __GFP_ZERO, n, objects));
        for (size_t i = 0; i < n; i++) {
            assert_int_equal(((struct thing *)objects[i])->number, 0);
            ((struct thing *)objects[i])->number = i + 1;
        }
        for (size_t i = 0; i < n; i++)
            assert_int_equal(((struct thing *)objects[i])->number, i + 1);
        if (n % 2)
            kmem_cache_free_bulk(cache, n, objects);
        else
            kmem_cache_free_bulk(NULL, n, objects); /* each by its address */
        if (n == 1)
            n = 2;
    }
    /* Objects of several caches, and of none. */
    objects[0] = kmem_cache_alloc(cache, GFP_KERNEL);
    objects[1] = kmalloc(100, GFP_KERNEL);
    objects[2] = NULL;
    objects[3] = kmalloc(100000, GFP_KERNEL);
    kfree_bulk(4, objects);
    assert_int_equal(stook_cache_destroy(kmem_stook_cache(cache)), 0);
}

TEST(shrunk)
{
    struct kmem_cache *cache = KMEM_CACHE(thing, 0);
    void *objects[1000];

    assert_true(kmem_cache_alloc_bulk(cache, GFP_KERNEL, 1000, objects));
    assert_int_equal(kmem_cache_shrink(cache), 1); /* slabs are in use */
    kmem_cache_free_bulk(cache, 1000, objects);
    assert_int_equal(kmem_cache_shrink(cache), 0);
    kmem_cache_destroy(cache);
}

/* ---- prefilled sheaves ----------------------------------------------------------------------- */

TEST(sheaves)
{
    struct kmem_cache_args args = {.sheaf_capacity = 32};
    struct kmem_cache *cache = kmem_cache_create("nodes", 200, &args, 0);
    struct slab_sheaf *sheaf, *before;
    void *objects[400];
    unsigned n = 0;

    errno = 0;
    assert_null(kmem_cache_prefill_sheaf(cache, GFP_KERNEL, 0));
    assert_int_equal(errno, EINVAL);
    sheaf = kmem_cache_prefill_sheaf(cache, GFP_KERNEL | __GFP_NOFAIL, 10);
    assert_non_null(sheaf);
    assert_in_range(kmem_cache_sheaf_size(sheaf), 10, 32);
    while (kmem_cache_sheaf_size(sheaf) > 0) {
        objects[n] = kmem_cache_alloc_from_sheaf(cache, GFP_NOWAIT | __GFP_ZERO, sheaf);
        assert_non_null(objects[n]);
        assert_int_equal(*(char *)objects[n], 0);
        memset(objects[n++], 0xff, 200);
    }
    assert_true(n >= 10);
    assert_null(kmem_cache_alloc_from_sheaf(cache, GFP_KERNEL, sheaf));
    assert_int_equal(kmem_cache_refill_sheaf(cache, GFP_KERNEL, &sheaf, 20), 0);
    assert_true(kmem_cache_sheaf_size(sheaf) >= 20);
    before = sheaf;
    assert_int_equal(kmem_cache_refill_sheaf(cache, GFP_ATOMIC, &sheaf, 5), 0);
    assert_ptr_equal(sheaf, before);
    /* Beyond its capacity: another sheaf. */
    assert_int_equal(kmem_cache_refill_sheaf(cache, GFP_KERNEL, &sheaf, 300), 0);
    assert_true(kmem_cache_sheaf_size(sheaf) >= 300);
    for (int i = 0; i < 300; i++)
        assert_non_null(objects[n++] = kmem_cache_alloc_from_sheaf(cache, GFP_KERNEL, sheaf));
    before = NULL;
    assert_int_equal(kmem_cache_refill_sheaf(cache, GFP_KERNEL, &before, 5), -EINVAL);
    assert_int_equal(kmem_cache_refill_sheaf(cache, GFP_KERNEL, NULL, 5), -EINVAL);
    kmem_cache_return_sheaf(cache, GFP_KERNEL, sheaf);
    kmem_cache_return_sheaf(cache, GFP_KERNEL, NULL);
    kmem_cache_free_bulk(cache, n, objects);
    assert_int_equal(stook_cache_destroy(kmem_stook_cache(cache)), 0);
}
