/* SPDX-License-Identifier: MIT */
#include "sheaf/barn.h"

#include "base/context.h"
#include "sheaf/budget.h"
#include "slab/node.h"
#include "support/check.h"
#include "support/environment.h"
#include "support/test.h"

#include <stook/stook.h>

enum { CAPACITY = 8 };

static struct stook_cache *cache;
static struct barn *barn;

static int setup(void **unused)
{
    struct stook_cache_args args = {.size = sizeof(args), .sheaf_capacity = CAPACITY};

    cache = stook_cache_create("barn", 256, &args);
    barn = &cache->nodes[0].barn;
    return cache ? 0 : -1;
}

static int teardown(void **unused)
{
    assert_int_equal(stook_cache_destroy(cache), 0); /* flushes what lies in the barn */
    check_all(NULL, 0);
    return 0;
}

static struct sheaf *empty_sheaf(void)
{
    struct sheaf *sheaf = sheaf_alloc(CAPACITY, CAPACITY, 0, false);

    assert_non_null(sheaf);
    return sheaf;
}

static struct sheaf *full_sheaf(void)
{
    struct sheaf *sheaf = empty_sheaf();

    sheaf->size = node_take(cache, 0, sheaf->object, CAPACITY, CAPACITY, false);
    assert_int_equal(sheaf->size, CAPACITY);
    return sheaf;
}

static void scrap(struct sheaf *chain)
{
    while (chain) {
        struct sheaf *next = chain->next;
        sheaf_flush(cache, chain, false);
        sheaf_free(chain, false);
        chain = next;
    }
}

/* A full sheaf that the barn refuses. */
static void refused_one(void)
{
    struct sheaf *full = full_sheaf();

    assert_false(barn_put_full(cache, 0, full, NULL, false));
    scrap(full);
}

TEST_WITH(full_and_empty_change_places, setup, teardown)
{
    struct sheaf *a = full_sheaf(), *b = full_sheaf(), *empty = NULL, *got;

    assert_true(barn_put_full(cache, 0, a, &empty, false));
    assert_null(empty); /* it has none to give */
    assert_true(barn_put_full(cache, 0, b, NULL, false));
    check_all(NULL, 0);
    empty = empty_sheaf();
    got = barn_get_full(cache, 0, &empty, false);
    assert_ptr_equal(got, b); /* the warm one */
    assert_null(empty);
    assert_int_equal(barn->nr_full, 1);
    assert_int_equal(barn->nr_empty, 1);
    assert_true(barn_put_full(cache, 0, got, &empty, false));
    assert_non_null(empty);
    assert_int_equal(empty->size, 0);
    assert_int_equal(barn->nr_empty, 0);
    barn_put_empty(cache, 0, empty, false);
    assert_ptr_equal(barn_get_empty(cache, 0, false), empty);
    assert_int_equal(barn->nr_empty, 0);
    sheaf_free(empty, false);
    assert_int_equal(barn->get, 1);
    assert_int_equal(barn->put, 3);
}

TEST_WITH(empty_sheaves_are_few, setup, teardown)
{
    for (unsigned i = 0; i < 40; i++)
        barn_put_empty(cache, 0, empty_sheaf(), false);
    assert_true(barn->nr_empty >= barn->full_limit && barn->nr_empty <= barn->full_limit + 2);
    check_all(NULL, 0);
}

TEST_WITH(limit_falls_and_rises, setup, teardown)
{
    unsigned limit = barn->full_limit, refused = 0;
    struct sheaf *empty = NULL;

    assert_int_equal(limit, cache_barn_limit(cache));
    assert_true(limit >= 2);
    for (unsigned i = 0; i < limit; i++)
        assert_true(barn_put_full(cache, 0, full_sheaf(), &empty, false));
    /* Only coming: refused, then the limit is halved, down to 0.  What is beyond it leaves in steps: here the
     * objects are of few slabs. */
    while (!barn_declines(cache, 0)) {
        unsigned before = barn->full_limit, had = barn->nr_full;
        refused_one();
        assert_true(barn->full_limit == before || barn->full_limit == before / 2);
        assert_int_equal(barn->nr_full, had);
        barn_shed(cache, 0, false, false);
        assert_int_equal(barn->nr_full, had < barn->full_limit ? had : barn->full_limit);
        check_all(NULL, 0);
        assert_true(refused++ < 100);
    }
    barn_shed(cache, 0, false, false);  /* a no-op */
    assert_int_equal(barn->nr_full, 0); /* nothing stays parked */
    assert_true(barn->put_fail >= refused);
    /* Missed: it grows by one each time, up to what it was. */
    for (unsigned i = 1; i < limit + 5; i++) {
        empty = NULL;
        assert_null(barn_get_full(cache, 0, &empty, false));
        assert_int_equal(barn->full_limit, i < limit ? i : limit);
    }
}

/* Fills the barn until it refuses one. */
static void fill_until_refused(void)
{
    struct sheaf *full;

    while (barn_put_full(cache, 0, full = full_sheaf(), NULL, false))
        ;
    scrap(full);
}

/* Empties it, and misses one more. */
static void empty_until_missed(void)
{
    struct sheaf *full, *empty = NULL;

    while ((full = barn_get_full(cache, 0, &empty, false)) != NULL)
        scrap(full);
}

TEST_WITH(limit_grows_where_refused_is_missed, setup, teardown)
{
    unsigned limit = barn->full_limit, most = cache_barn_most(cache);

    assert_true(most > limit && most * CAPACITY * cache->layout.stride <= 1 << 20);
    empty_until_missed(); /* without a refusal before */
    empty_until_missed();
    assert_int_equal(barn->full_limit, limit);
    for (unsigned i = 1; i < most + 3; i++) {
        unsigned now = limit + i < most ? limit + i : most;
        fill_until_refused();
        empty_until_missed();
        assert_int_equal(barn->full_limit, now);
        empty_until_missed(); /* that refusal has counted */
        assert_int_equal(barn->full_limit, now);
    }
    /* A grown one lasts for as many refusals as it counts, no fewer. */
    for (unsigned i = 0; i < most; i++)
        assert_true(barn_put_full(cache, 0, full_sheaf(), NULL, false));
    for (unsigned i = 1; i < most; i++) {
        refused_one();
        assert_int_equal(barn->full_limit, most);
    }
    refused_one();
    assert_int_equal(barn->full_limit, most / 2);
    while (barn->nr_full > most / 2) {
        unsigned had = barn->nr_full;
        barn_shed(cache, 0, false, false);
        assert_true(barn->nr_full < had && had - barn->nr_full <= SHEAF_FLUSH_SLABS);
    }
    barn_shed(cache, 0, false, false);
    assert_int_equal(barn->nr_full, most / 2);
}

TEST_WITH(one_object_at_a_time, setup, teardown)
{
    struct sheaf *sheaf = full_sheaf();
    struct check_object held[CAPACITY];

    assert_null(barn_take_object(cache, 0, false));
    assert_true(barn_put_full(cache, 0, sheaf, NULL, false));
    for (unsigned i = 0; i < CAPACITY; i++) {
        held[i] = (struct check_object){cache, barn_take_object(cache, 0, false)};
        assert_non_null(held[i].object);
        check_all(held, i + 1);
    }
    assert_null(barn_take_object(cache, 0, false));
    assert_int_equal(barn->nr_full, 0);
    assert_int_equal(barn->nr_empty, 1);
    for (unsigned i = 0; i < CAPACITY; i++)
        node_put(cache, &held[i].object, 1, false);
}

/* The rest of a sheaf that is flushed in steps: beyond the limit, but not beyond the budget. */
TEST_WITH(a_rest_keeps_to_the_budget, setup, teardown)
{
    size_t most = atomic_load(&budget.max);

    __atomic_store_n(&barn->full_limit, 0, __ATOMIC_RELAXED);
    barn_put_rest(cache, 0, full_sheaf(), false, false);
    assert_int_equal(barn->nr_full, 1);
    assert_int_equal(stook_cached_bytes_set_max(0), 0); /* drains the barn */
    assert_int_equal(barn->nr_full, 0);
    barn_put_rest(cache, 0, full_sheaf(), false, false); /* flushed, and kept empty */
    assert_int_equal(barn->nr_full, 0);
    assert_int_equal(barn->nr_empty, 1);
    check_all(NULL, 0);
    assert_int_equal(stook_cached_bytes_set_max(most), 0);
}

/* Each step-th object of those that whole slabs have, from the slab `first` on. */
static struct sheaf *sheaf_across(void **objects, unsigned first, unsigned step)
{
    struct sheaf *sheaf = empty_sheaf();

    while (sheaf->size < CAPACITY) {
        void **object = &objects[first * cache->layout.objects + sheaf->size * step];
        sheaf->object[sheaf->size++] = *object;
        *object = NULL;
    }
    return sheaf;
}

/* From a refusal on, objects whose slabs are mostly free leave, and only others come. */
TEST(sparse_objects_leave)
{
    enum { SLABS = 64, EACH = 8 };
    struct stook_cache_args args = {.size = sizeof(args), .sheaf_capacity = CAPACITY};
    struct sheaf *sparse, *dense, *empty = NULL;
    void *objects[SLABS * EACH];
    unsigned limit;

    cache = stook_cache_create("sparse", 16 << 10, &args);
    assert_non_null(cache);
    barn = &cache->nodes[0].barn;
    limit = barn->full_limit;
    assert_int_equal(cache->layout.objects, EACH);
    assert_true(node_take(cache, 0, objects, SLABS * EACH, SLABS * EACH, false) == SLABS * EACH);
    for (unsigned i = 0; i < limit; i++)
        assert_true(
            barn_put_full(cache, 0, sheaf_across(objects, i * CAPACITY, EACH), NULL, false));
    refused_one();
    sparse = sheaf_across(objects, limit * CAPACITY, EACH);
    dense = sheaf_across(objects, SLABS - 1, 1);
    barn_shed(cache, 0, true, false); /* their slabs are full */
    assert_int_equal(barn->nr_full, limit);
    assert_int_equal(barn->bytes, limit * CAPACITY * cache->layout.stride);
    node_put(cache, objects, SLABS * EACH, false);
    for (unsigned i = 0; i < limit; i++) /* and now they are not */
        barn_shed(cache, 0, true, false);
    assert_int_equal(barn->nr_full, 0);
    assert_false(barn_put_full(cache, 0, sparse, NULL, false));
    assert_true(barn_put_full(cache, 0, dense, NULL, false));
    assert_ptr_equal(barn_get_full(cache, 0, &empty, false), dense);
    assert_true(barn_put_full(cache, 0, sparse, NULL, false)); /* it was asked for one */
    scrap(dense);
    assert_int_equal(stook_cache_destroy(cache), 0);
    check_all(NULL, 0);
}

TEST_WITH(drain, setup, teardown)
{
    struct check_counts counts;

    assert_true(barn_put_full(cache, 0, full_sheaf(), NULL, false));
    assert_true(barn_put_full(cache, 0, full_sheaf(), NULL, false));
    barn_put_empty(cache, 0, empty_sheaf(), false);
    check_count(cache, NULL, 0, &counts);
    assert_int_equal(counts.cached, 2 * CAPACITY);
    barn_drain(cache, 0);
    check_count(cache, NULL, 0, &counts);
    assert_int_equal(counts.cached, 0);
    assert_int_equal(barn->nr_full + barn->nr_empty, 0);
}

/* A handler meets the lock held: it gets nothing, and keeps what it brought. */
TEST_WITH(held_lock_is_only_tried, setup, teardown)
{
    struct sheaf *full = full_sheaf(), *second = full_sheaf(), *empty = empty_sheaf();
    struct sheaf *asked = empty, *made;

    assert_true(barn_put_full(cache, 0, full, NULL, false));
    barn_put_empty(cache, 0, empty_sheaf(), false);
    context_enter();
    lock_take(&barn->lock, LOCK_BARN);
    context_enter();
    assert_null(barn_get_full(cache, 0, &asked, true));
    assert_ptr_equal(asked, empty);
    made = barn_get_empty(cache, 0, true); /* a new one */
    assert_int_equal(barn->nr_empty, 1);
    sheaf_free(made, true);
    assert_null(barn_take_object(cache, 0, true));
    assert_false(barn_put_full(cache, 0, second, NULL, true));
    barn_put_empty(cache, 0, empty, true); /* freed instead */
    context_leave();
    lock_drop(&barn->lock, LOCK_BARN);
    context_leave();
    scrap(second);
    assert_int_equal(barn->nr_full, 1);
    assert_int_equal(barn->nr_empty, 1);
    check_all(NULL, 0);
}
