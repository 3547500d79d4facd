/* SPDX-License-Identifier: MIT */
#include "slab/slab.h"

#include "page/arena.h"
#include "support/check.h"
#include "support/test.h"

#include <stook/stook.h>

TEST(state_word)
{
    uint64_t word = slab_word(0x1234, 0x7fff, 0xabcdef, 0x81);

    assert_int_equal(slab_head(word), 0x1234);
    assert_int_equal(slab_inuse(word), 0x7fff);
    assert_int_equal(slab_seq(word), 0xabcdef);
    assert_int_equal(slab_flags(word), 0x81);
    /* The sequence wraps into nothing else. */
    word = slab_word(SLAB_NONE, 0, 0xffffff + 1, SLAB_MIN);
    assert_int_equal(slab_seq(word), 0);
    assert_int_equal(slab_flags(word), SLAB_MIN);
    assert_int_equal(slab_head(word), SLAB_NONE);
}

static unsigned constructed, destructed;

static void ctor(void *object, void *arg)
{
    assert_int_equal(*(char *)object, 0); /* fresh pages */
    memset(object, 0x11, 100);
    constructed++;
}

static void dtor(void *object, void *arg)
{
    assert_int_equal(((char *)object)[99], 0x11);
    destructed++;
}

static struct stook_cache *make_cache(size_t size, bool constructing)
{
    struct stook_cache_args args = {.size = sizeof(args), .flags = STOOK_CACHE_NOSHEAF};
    struct stook_cache *cache;

    if (constructing) {
        args.ctor = ctor;
        args.dtor = dtor;
    }
    cache = stook_cache_create("slab", size, &args);
    assert_non_null(cache);
    return cache;
}

TEST(make_and_unmake)
{
    struct stook_cache *cache = make_cache(700, true);
    struct slab *slab = slab_make(cache, 0, false);
    uint64_t word = atomic_load(&slab->state);
    unsigned objects = cache->layout.objects;
    char *base = slab_base(slab);
    uint32_t index;

    assert_int_equal(slab_inuse(word), objects); /* all handed out */
    assert_int_equal(slab_head(word), SLAB_NONE);
    assert_int_equal((uintptr_t)base % ((size_t)PAGE_SIZE << cache->layout.order), 0);
    assert_int_equal(slab_node(slab), 0);
    assert_int_equal(constructed, objects);
    for (unsigned i = 0; i < objects; i++) {
        char *object = base + i * cache->layout.stride;
        assert_ptr_equal(slab_of(cache, object, &index), slab);
        assert_int_equal(index, i);
        assert_ptr_equal(slab_cache_of(object + 650), cache);
    }
    /* The descriptor is in no page of the arena. */
    assert_false(pagemap_covers(slab));
    atomic_store(&slab->state, slab_word(SLAB_NONE, 0, 0, 0));
    slab_unmake(cache, slab);
    assert_int_equal(destructed, objects);
    assert_null(slab_cache_of(base));
    assert_int_equal(stook_cache_destroy(cache), 0);
    check_all(NULL, 0);
}

TEST(foreign_addresses)
{
    static char data;
    int local = 0;

    assert_null(slab_cache_of(NULL));
    assert_null(slab_cache_of(&data));
    assert_null(slab_cache_of(&local));
    assert_null(slab_cache_of((void *)(uintptr_t)-1));
    assert_null(slab_cache_of((char *)pagemap.base - 1));
    assert_null(slab_cache_of((char *)pagemap.base + pagemap.size));
    assert_null(slab_cache_of((char *)pagemap.base + pagemap.size - 1)); /* never used */
}

struct bad {
    struct stook_cache *cache;
    void *object;
};

static int ask(void *arg)
{
    struct bad *bad = arg;
    uint32_t index;

    return slab_of(bad->cache, bad->object, &index) == NULL;
}

TEST(reports)
{
    struct stook_cache *cache = make_cache(700, false), *other = make_cache(64, false);
    char *object = stook_alloc(cache, 0), *of_other = stook_alloc(other, 0);
    struct child child;
    struct bad bad[] = {
        {cache, &child},
        {cache, object + 1},
        {cache, of_other},
        {other, object},
        {cache, (char *)((uintptr_t)object & ~(uintptr_t)4095) + 4095}, /* in the slab's waste */
    };
    const char *says[] = {
        "is not of this library",
        "is not the start of an object; it lies 1 bytes into object",
        "is of no slab of this cache",
        "is of no slab of this cache; it lies 0 bytes into object",
        "is not the start of an object",
    };

    for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        child_run(&child, ask, &bad[i]);
        assert_true(child_died_saying(&child, says[i]));
        assert_true(child_died_saying(&child, "BUG slab: bad free: pointer 0x"));
    }
    stook_free(cache, object);
    stook_free(other, of_other);
    assert_int_equal(stook_cache_destroy(cache), 0);
    assert_int_equal(stook_cache_destroy(other), 0);
}

static int walk_corrupt(void *arg)
{
    struct bad *bad = arg;
    uint32_t index;
    struct slab *slab = slab_of(bad->cache, bad->object, &index);

    *slab_link(bad->cache, slab, index) ^= 0x4000;
    return (int)check_next(bad->cache, slab, index, bad->cache->layout.objects);
}

TEST(links)
{
    struct stook_cache *cache = make_cache(8, false);
    void *object = stook_alloc(cache, 0);
    struct bad bad = {cache, object};
    struct child child;
    uint32_t index;
    struct slab *slab = slab_of(cache, object, &index);

    slab_set_link(cache, slab, index, 17);
    assert_int_equal(check_next(cache, slab, index, 512), 17);
    slab_set_link(cache, slab, index, SLAB_NONE);
    assert_int_equal(check_next(cache, slab, index, 512), SLAB_NONE);
    slab_set_link(cache, slab, index, 5);
    child_run(&child, walk_corrupt, &bad);
    assert_true(child_died_saying(&child, "BUG slab: corrupt freelist"));
    stook_free(cache, object);
    assert_int_equal(stook_cache_destroy(cache), 0);
}
