/* SPDX-License-Identifier: MIT */
#include "slab/freelist_iter.h"
#include "support/check.h"
#include "support/test.h"

#include <stook/stook.h>

#include <stdlib.h>
#include <string.h>

static struct stook_cache *cache;
static struct slab *slab;

/* A slab that no other thread sees. */
static void make_with(size_t size, unsigned flags, void (*ctor)(void *, void *))
{
    struct stook_cache_args args = {
        .size = sizeof(args), .flags = STOOK_CACHE_NOSHEAF | flags, .ctor = ctor};

    cache = stook_cache_create("freelist_iter", size, &args);
    assert_non_null(cache);
    slab = slab_make(cache, 0, false);
    assert_non_null(slab);
}

static void make(size_t size, void (*ctor)(void *, void *))
{
    make_with(size, 0, ctor);
}

static void unmake(void)
{
    atomic_store(&slab->state, slab_word(SLAB_NONE, 0, 0, 0));
    slab_unmake(cache, slab);
    assert_int_equal(stook_cache_destroy(cache), 0);
}

TEST(emits_whole_without_writing)
{
    static void *objects[1000];
    size_t bytes;
    char *base;
    struct freelist_iter iter;

    make(8, NULL); /* links inside: linking would write to the pages */
    base = slab_base(slab);
    bytes = (size_t)PAGE_SIZE << cache->layout.order;
    memset(base, 0x6b, bytes);
    iter = freelist_iter_begin(cache, slab);
    assert_int_equal(iter.left, cache->layout.objects);
    assert_int_equal(freelist_iter_emit(&iter, cache, slab, objects, 100), 100);
    assert_int_equal(freelist_iter_emit(&iter, cache, slab, objects + 100, 900),
                     cache->layout.objects - 100u);
    assert_int_equal(freelist_iter_emit(&iter, cache, slab, objects, 1), 0);
    assert_int_equal(freelist_iter_link(&iter, cache, slab), SLAB_NONE);
    for (unsigned i = 0; i < cache->layout.objects; i++)
        assert_ptr_equal(objects[i], base + i * cache->layout.stride);
    for (size_t i = 0; i < bytes; i++)
        assert_int_equal(base[i], 0x6b);
    unmake();
}

static void constructor(void *object, void *arg)
{
    memset(object, 0x3c, 10);
}

TEST(links_the_rest)
{
    static const struct {
        size_t size;
        void (*ctor)(void *, void *);
    } kinds[] = {{8, NULL}, {256, NULL}, {10, constructor}, {3000, NULL}};
    void *objects[8];

    for (unsigned k = 0; k < 4; k++) {
        struct freelist_iter iter;
        uint32_t index;
        make(kinds[k].size, kinds[k].ctor);
        iter = freelist_iter_begin(cache, slab);
        assert_int_equal(freelist_iter_emit(&iter, cache, slab, objects, 3), 3);
        index = freelist_iter_link(&iter, cache, slab);
        for (uint32_t want = 3; want < cache->layout.objects; want++) {
            assert_int_equal(index, want);
            index = check_next(cache, slab, index, cache->layout.objects);
        }
        assert_int_equal(index, SLAB_NONE);
        for (uint32_t i = 0; kinds[k].ctor && i < cache->layout.objects; i++)
            for (int b = 0; b < 10; b++) /* links are none of the objects' bytes */
                assert_int_equal(slab_base(slab)[i * cache->layout.stride + b], 0x3c);
        unmake();
    }
}

/* By hand: a walk through a permutation from its middle, in a slab with fewer objects than that. */
TEST(random_order_passes_over)
{
    static uint16_t known[8] = {3, 0, 6, 1, 7, 2, 5, 4};
    static const uint32_t want[5] = {1, 2, 4, 3, 0}; /* from position 3, without 5, 6 and 7 */
    struct freelist_iter iter = {known, 3, 8, 5, 5};
    void *objects[8];
    uint32_t index;

    make_with(256, STOOK_CACHE_RANDOM, NULL);
    assert_int_equal(freelist_iter_emit(&iter, cache, slab, objects, 2), 2);
    for (unsigned i = 0; i < 2; i++)
        assert_ptr_equal(objects[i], slab_base(slab) + want[i] * cache->layout.stride);
    index = freelist_iter_link(&iter, cache, slab);
    for (unsigned i = 2; i < 5; i++) {
        assert_int_equal(index, want[i]);
        index = check_next(cache, slab, index, 5);
    }
    assert_int_equal(index, SLAB_NONE);
    assert_int_equal(iter.left, 0);
    /* It begins at a position, not at an index: wherever that is, all come. */
    for (unsigned turn = 0; turn < 50; turn++) {
        iter = freelist_iter_begin(cache, slab);
        assert_true(iter.at < cache->layout.objects);
        assert_ptr_equal(iter.permutation, cache->permutation);
        assert_int_equal(iter.left, cache->layout.objects);
        index = cache->permutation[iter.at];
        assert_int_equal(freelist_iter_next(&iter), index);
    }
    unmake();
}
