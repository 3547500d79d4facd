/* SPDX-License-Identifier: MIT */
/* needs: native */
/* wrap: raw_call6 */
/*
 * The n-th system call of the reserves fails, for every n, and then two and then all from it on:
 * sheaves and pools are as they were, nothing is lost, and afterwards everything works.
 */
#include "percpu/rows.h"
#include "os/topology.h"
#include "reserve/pool.h"
#include "reserve/prefilled.h"
#include "slab/slab.h"
#include "support/check.h"
#include "support/environment.h"
#include "support/faults.h"
#include "support/test.h"
#include "support/with.h"

#include <stook/reserve.h>
#include <stook/stook.h>

#if FAULTS_POSSIBLE

/* ---- the scenario --------------------------------------------------------------------------- */

enum { SIZE = 9000, MOST = 4000 };

static struct check_object held[MOST];
static size_t nheld;

static void hold(struct stook_cache *cache, void *object)
{
    assert_true(nheld < MOST);
    memset(object, 0x44, SIZE);
    held[nheld++] = (struct check_object){cache, object};
}

static void give_back(size_t keep)
{
    while (nheld > keep) {
        nheld--;
        stook_free(held[nheld].cache, held[nheld].object);
    }
}

static void check(struct stook_cache *cache, struct stook_sheaf *given, struct stook_pool *pool)
{
    size_t before = nheld;
    bool off = fault_off;

    fault_off = true;
    if (given) {
        struct sheaf *sheaf = prefilled_of(cache, given);
        for (uint32_t i = 0; i < sheaf->size; i++)
            held[nheld++] = (struct check_object){cache, sheaf->object[i]};
        if (sheaf->capacity <= STOOK_SHEAF_CAPACITY_MAX)
            held[nheld++] = (struct check_object){slab_cache_of(sheaf), sheaf};
    }
    for (unsigned chunk = 0; pool && chunk < POOL_CHUNKS && pool->chunk[chunk]; chunk++)
        for (uint32_t i = 0; i < (chunk ? (uint32_t)POOL_FIRST << (chunk - 1) : POOL_FIRST); i++)
            if (pool->chunk[chunk][i])
                held[nheld++] = (struct check_object){cache, pool->chunk[chunk][i]};
    check_all(held, nheld);
    nheld = before;
    fault_off = off;
}

/* What may fail only because something was made to fail, and then says so. */
#define MAY_FAIL(condition) assert_true((condition) || (fault_hits > 0 && errno == ENOMEM))

static void use_sheaves(struct stook_cache *cache)
{
    struct stook_sheaf *sheaf, *before;
    static const unsigned sizes[] = {10, 700, 1500};
    unsigned size;

    errno = 0;
    sheaf = stook_sheaf_prefill(cache, 0, 5);
    MAY_FAIL(sheaf);
    if (!sheaf)
        return;
    for (unsigned i = 0; i < 3; i++) {
        before = sheaf;
        size = stook_sheaf_size(sheaf);
        errno = 0;
        if (stook_sheaf_refill(cache, 0, &sheaf, sizes[i]) == 0) {
            assert_true(stook_sheaf_size(sheaf) >= sizes[i]);
        } else {
            MAY_FAIL(false);
            assert_ptr_equal(sheaf, before);
            assert_int_equal(stook_sheaf_size(sheaf), size);
        }
        check(cache, sheaf, NULL);
    }
    for (unsigned i = 0; i < 4 && stook_sheaf_size(sheaf) > 0; i++)
        hold(cache, stook_sheaf_alloc(cache, 0, sheaf));
    stook_sheaf_return(cache, sheaf);
    check(cache, NULL, NULL);
}

/* A change of capacity is a store; what it gives back is flushed or stays, and nothing is lost. */
static void use_capacities(struct stook_cache *cache)
{
    static const unsigned capacities[] = {40, 3, 1022, 1, 0};
    void *objects[100];

    for (unsigned i = 0; i < sizeof(capacities) / sizeof(capacities[0]); i++) {
        unsigned n = 0;
        errno = 0;
        while (n < 100 && (objects[n] = stook_alloc(cache, 0)) != NULL)
            n++;
        MAY_FAIL(n == 100);
        while (n > 0)
            stook_free(cache, objects[--n]);
        assert_int_equal(stook_cache_set_capacity(cache, capacities[i]), 0);
        if (capacities[i])
            assert_int_equal(cache_capacity(cache), capacities[i]);
        check(cache, NULL, NULL);
    }
}

static void use_pool(struct stook_cache *cache)
{
    struct stook_pool *pool;
    unsigned min = 30;

    errno = 0;
    pool = stook_pool_create(cache, min);
    MAY_FAIL(pool);
    if (!pool)
        return;
    assert_int_equal(stook_pool_available(pool), min);
    for (unsigned i = 0; i < 3; i++) {
        unsigned wanted = i == 1 ? 10 : 400;
        errno = 0;
        if (stook_pool_resize(pool, wanted) == 0)
            min = wanted;
        else
            MAY_FAIL(false);
        assert_true(stook_pool_available(pool) == min || fault_hits > 0);
        assert_true(stook_pool_available(pool) <= min);
        check(cache, NULL, pool);
    }
    size_t before = nheld;
    for (unsigned i = 0; i < 50; i++) {
        void *object = stook_pool_alloc(pool, STOOK_NORECLAIM, NULL);
        MAY_FAIL(object);
        if (object)
            hold(cache, object);
    }
    check(cache, NULL, pool);
    while (nheld > before)
        stook_pool_free(pool, held[--nheld].object);
    assert_int_equal(stook_pool_destroy(pool), 0);
    check(cache, NULL, NULL);
}

/* The machine's only node, or one of a simulated one; and one that has no memory. */
static void use_nodes(struct stook_cache *cache)
{
    size_t before = nheld;

    for (unsigned i = 0; i < 60; i++) {
        unsigned flags = (i % 3 ? STOOK_THISNODE : 0) | (i % 2 ? STOOK_NORECLAIM : 0);
        int node = i % 4 == 3 ? (int)topology.nodes - 1 : (int)topology.home_of_node[0];
        void *object;
        errno = 0;
        object = alloc_with_node(cache, flags, node);
        MAY_FAIL(object);
        if (object)
            hold(cache, object);
    }
    check(cache, NULL, NULL);
    give_back(before);
}

static size_t give(size_t wanted, void *arg)
{
    give_back(nheld > 3 ? nheld - 3 : 0);
    return SIZE;
}

static void scenario(struct stook_cache *cache)
{
    assert_int_equal(stook_reclaim_register(give, NULL), 0);
    use_sheaves(cache);
    use_capacities(cache);
    use_pool(cache);
    use_nodes(cache);
    use_sheaves(cache);
    assert_int_equal(stook_reclaim_unregister(give, NULL), 0);
    give_back(0);
    (void)stook_cache_shrink(cache);
    check(cache, NULL, NULL);
}

static void run(unsigned length)
{
    unsigned n = 1;

    do {
        struct stook_cache *cache = stook_cache_create("fault", SIZE, NULL);
        assert_non_null(cache);
        fault_at = n++;
        fault_length = length;
        fault_calls = fault_hits = 0;
        fault_off = false;
        scenario(cache);
        fault_off = true;
        n += fault_calls > 200 ? fault_calls / 100 : 0;
        if (fault_hits > 0) {
            unsigned hits = fault_hits;
            fault_hits = 0;
            scenario(cache); /* and now all of it works */
            fault_hits = hits;
        }
        assert_int_equal(stook_cache_destroy(cache), 0);
    } while (fault_hits > 0);
    print_message("%u calls, %u at a time\n", n - 2, length);
    assert_true(n > 5); /* the scenario makes that many at least */
}

TEST(one_call)
{
    run(1);
}

TEST(two_calls)
{
    run(2);
}

TEST(all_calls)
{
    run(~0u);
}

/* Nothing is kept warm: each round asks the kernel again. */
TESTS_WITH_SETTING("STOOK_RESERVE", "0")
#endif
