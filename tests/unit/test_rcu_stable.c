/* SPDX-License-Identifier: MIT */
/* needs: whole */
/*
 * Type-stable caches: memory of objects stays of their type until the readers are gone, and free
 * objects are never written to.
 */
#include "cache/cache_list.h"
#include "support/rcu_by_hand.h"

#include <stook/rcu.h>

static unsigned constructed, destructed;

static void construct(void *object, void *arg)
{
    *(uint64_t *)object = 0x7e57ab1e;
    constructed++;
}

static void destruct(void *object, void *arg)
{
    assert_int_equal(*(uint64_t *)object, 0x7e57ab1e);
    destructed++;
}

TEST_WITH(type_stable, setup, teardown)
{
    struct stook_cache_args args = {
        .size = sizeof(args), .ctor = construct, .dtor = destruct, .flags = STOOK_CACHE_TYPESAFE};
    struct cache_counts counts;
    struct stook_cache *stable;
    static uint64_t *list[2000];
    unsigned n = sizeof(list) / sizeof(list[0]), before = barriers;

    constructed = destructed = 0;
    args.flags |= STOOK_CACHE_LINK_INSIDE;
    assert_null(stook_cache_create("stable", 1000, &args));
    args.flags &= ~STOOK_CACHE_LINK_INSIDE;
    stable = stook_cache_create("stable", 1000, &args);
    assert_non_null(stable);
    stable->min_partial = 0;
    for (unsigned i = 0; i < n; i++)
        assert_non_null(list[i] = stook_alloc(stable, 0));
    for (unsigned i = 0; i < n; i++)
        stook_free(stable, list[i]);
    stook_cache_shrink(stable);
    cache_count(stable, &counts);
    assert_int_equal(counts.slabs, 0); /* given up, all of them … */
    assert_int_equal(queued, 1);
    assert_int_equal(destructed, 0);
    for (unsigned i = 0; i < n; i++) /* … and still there for a reader */
        assert_int_equal(*list[i], 0x7e57ab1e);
    assert_true(rcu_slabs_waiting(stable) > 0);
    list[0] = stook_alloc(stable, 0);
    pass();
    /* What came while others waited follows them. */
    assert_true(destructed > 0);
    while (queued > 0)
        pass();
    assert_int_equal(rcu_slabs_waiting(stable), 0);
    assert_int_equal(barriers, before);
    stook_free_rcu(stable, list[0]);
    assert_int_equal(stook_cache_destroy(stable), 0);
    assert_true(barriers >= before + 2); /* the object, then its slab */
    assert_int_equal(constructed, destructed);
    check();
}

/* Free objects of a type-stable cache are never written to, whatever their size. */
TEST_WITH(type_stable_is_left_alone, setup, teardown)
{
    static const size_t sizes[] = {8, 16, 24, 40, 48, 100, 3000};

    assert_int_equal(stook_cache_destroy(cache), 0);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        cache = make(sizes[i], 0, STOOK_CACHE_TYPESAFE);
        take(500);
        while (held > 250) {
            unsigned k = held * 7 % 250;
            void *object = objects[k];
            objects[k] = objects[--held];
            objects[held] = object;
            stook_free(cache, object);
        }
        stook_cache_shrink(cache);
        for (unsigned k = 0; k < 500; k++)
            for (size_t b = 0; b < sizes[i]; b++)
                assert_int_equal(((unsigned char *)objects[k])[b], 0x5a);
        while (queued > 0)
            pass();
        check();
        while (held > 0)
            stook_free(cache, objects[--held]);
        assert_int_equal(stook_cache_destroy(cache), 0);
    }
    cache = make(SIZE, CAPACITY, 0);
}

int main(void)
{
    if (stook_rcu_set_ops(&ops) != 0)
        return 1;
    return tests_run(NULL, NULL);
}
