/* SPDX-License-Identifier: MIT */
/* needs: whole */
/*
 * Accounted objects under threads, each in groups of its own choice, that free what others took, one by
 * one and in bulk, while caches are shrunk, groups come and go, and limits are looked at.  When all
 * stand still a group's usage is the sum of the objects that name it; a limit was never exceeded; and
 * when all objects are gone nothing is charged.
 */
#include "charge/group_table.h"
#include "slab/cache.h"
#include "support/random.h"
#include "support/scale.h"
#include "support/test.h"
#include "support/with.h"

#include <stook/group.h>
#include <stook/stook.h>

#include <pthread.h>
#include <sched.h>

enum {
    THREADS = 6,
    GROUPS = 6, /* 0 is the parent of all others */
    CACHES = 3,
    SHELF = 1500, /* objects that are out, at most */
    BULK = 16,
    OPERATIONS = 20000,
    LIMIT = 400 << 10,
};

static struct stook_group group[GROUPS];
static struct stook_cache *cache[CACHES];
static _Atomic(void *) shelf[CACHES][SHELF];
static _Atomic unsigned working, errors, refused;

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition) && atomic_fetch_add(&errors, 1) == 0)                                     \
            fprintf(stderr, "line %d: %s\n", __LINE__, #condition);                                \
    } while (0)

static void put(int c, uint64_t *random, void *object)
{
    void *other = atomic_exchange(&shelf[c][random_below(random, SHELF)], object);

    stook_free(cache[c], other);
}

static void put_many(int c, uint64_t *random, void **objects)
{
    for (int i = 0; i < BULK; i++)
        objects[i] = atomic_exchange(&shelf[c][random_below(random, SHELF)], objects[i]);
    stook_free_bulk(cache[c], BULK, objects);
}

/* In a group that no other thread knows, which is destroyed with the objects that it still has. */
static void use_passing_group(int c, uint64_t *random)
{
    struct stook_group fresh =
        stook_group_create("passing", group[random_below(random, GROUPS)], STOOK_UNLIMITED);

    CHECK(fresh.id);
    for (int i = 0; i < 4; i++) {
        void *object = alloc_with_group(cache[c], STOOK_WAIT, fresh);
        CHECK(object || errno == EDQUOT);
        if (object)
            put(c, random, object);
    }
    CHECK(stook_group_destroy(fresh) == 0);
}

static void work_once(uint64_t *random)
{
    int c = (int)random_below(random, CACHES);
    unsigned what = random_below(random, 100);
    void *objects[BULK];

    if (what < 10) {
        (void)stook_group_enter(what == 0 ? STOOK_NO_GROUP : group[random_below(random, GROUPS)]);
    } else if (what < 70) {
        void *object = stook_alloc(cache[c], STOOK_WAIT);
        CHECK(object || errno == EDQUOT);
        if (object)
            put(c, random, object);
        else
            atomic_fetch_add(&refused, 1);
    } else if (what < 90) {
        size_t got = stook_alloc_bulk(cache[c], STOOK_NORECLAIM, BULK, objects) == 0 ? BULK : 0;
        CHECK(got == BULK || (got == 0 && errno == EDQUOT));
        if (got == BULK)
            put_many(c, random, objects);
    } else if (what < 98) {
        put(c, random, NULL);
    } else if (what == 98) {
        use_passing_group(c, random);
    } else if (random_below(random, 20) == 0) {
        stook_cache_shrink(cache[c]);
    }
}

static void *work(void *arg)
{
    uint64_t random = (uintptr_t)arg;
    unsigned n = (unsigned)scaled(OPERATIONS);

    for (unsigned i = 0; i < n; i++)
        work_once(&random);
    atomic_fetch_sub(&working, 1);
    return NULL;
}

static void check_limits(void)
{
    for (int g = 0; g < GROUPS; g++) {
        struct stook_group_stat stat = {.size = sizeof(stat)};
        CHECK(stook_group_stat(group[g], &stat) == 0);
        if (stat.limit != STOOK_UNLIMITED)
            CHECK(stat.usage + stat.stocked <= stat.limit && stat.peak <= stat.limit);
    }
}

/* What the objects say themselves. */
static void check_sums(void)
{
    uint64_t sums[GROUPS] = {0};

    for (int c = 0; c < CACHES; c++)
        for (int i = 0; i < SHELF; i++) {
            struct stook_group owner = shelf[c][i] ? stook_group_of(shelf[c][i]) : STOOK_NO_GROUP;
            for (; owner.id; owner = group_parent_of(owner))
                for (int g = 0; g < GROUPS; g++)
                    sums[g] += owner.id == group[g].id ? cache[c]->account.charge : 0;
        }
    for (int g = 0; g < GROUPS; g++) {
        struct stook_group_stat stat = {.size = sizeof(stat)};
        assert_int_equal(stook_group_stat(group[g], &stat), 0);
        assert_int_equal(stat.usage, sums[g]);
    }
}

TEST(test_storm)
{
    static const size_t sizes[CACHES] = {40, 256, 900};
    struct stook_cache_args args = {.size = sizeof(args), .flags = STOOK_CACHE_ACCOUNT};
    pthread_t thread[THREADS];

    for (int g = 0; g < GROUPS; g++) {
        group[g] = stook_group_create("storm", g ? group[g / 3] : STOOK_NO_GROUP,
                                      g < 3 ? (size_t)LIMIT >> g : STOOK_UNLIMITED);
        assert_int_not_equal(group[g].id, 0);
    }
    for (int c = 0; c < CACHES; c++)
        assert_non_null(cache[c] = stook_cache_create("storm", sizes[c], &args));
    atomic_store(&working, THREADS);
    for (uintptr_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, work, (void *)(i + 1)), 0);
    while (atomic_load(&working) > 0) {
        check_limits();
        sched_yield();
    }
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(thread[i], NULL), 0);
    check_limits();
    assert_int_equal(errors, 0);
    assert_true(refused > 0);
    check_sums();
    for (int c = 0; c < CACHES; c++) {
        for (int i = 0; i < SHELF; i++)
            stook_free(cache[c], shelf[c][i]);
        assert_int_equal(stook_cache_destroy(cache[c]), 0);
    }
    for (int g = GROUPS; g-- > 0;) {
        struct stook_group_stat stat = {.size = sizeof(stat)};
        assert_int_equal(stook_group_stat(group[g], &stat), 0);
        assert_int_equal(stat.usage, 0);
        assert_int_equal(stook_group_destroy(group[g]), 0);
    }
    assert_int_equal(group_table.unused, atomic_load(&group_table.high)); /* no zombie is left */
}

int main(void)
{
    (void)stook_mode(NULL);
    return tests_run(NULL, NULL);
}
