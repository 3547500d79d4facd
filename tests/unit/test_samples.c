/* SPDX-License-Identifier: MIT */
/* needs: whole */
/*
 * The sampled profile: its samples stand for the bytes that were allocated and are in use, by call site, however
 * objects of a sheaf are freed and allocated again.  Frees of samples are seen, by any thread.  Also large objects, the
 * table that is full, and typed caches.
 */
#include "kmalloc/kmalloc.h"
#include "sample/large_samples.h"
#include "sample/sample.h"
#include "sample/shadow.h"
#include "sample/sites.h"

#include "support/check.h"
#include "support/scale.h"
#include "support/test.h"
#include "watch/stats.h"

#include <stook/kmalloc.h>
#include <stook/stook.h>

#include <pthread.h>

enum { MEAN = 16 << 10, KEPT = 300000 / SCALE_SLOWNESS, SIZE = 64 };

struct sums {
    double came, live;
    uint64_t samples, gone;
};

/* Of the sites of a cache; objects. */
static struct sums sums(const char *name)
{
    struct sums all = {0};

    for (uint32_t i = 0; i < SITES_MOST; i++) {
        const struct site *site = sites_at(i);
        double came, went;
        if (!site || strcmp(site->name, name) != 0)
            continue;
        came = (double)atomic_load(&site->came_objects) / SITES_ONE;
        went = (double)atomic_load(&site->went_objects) / SITES_ONE;
        all.came += came;
        all.live += came - went;
        all.samples += atomic_load(&site->came);
        all.gone += atomic_load(&site->went);
    }
    return all;
}

/* `found` of `wanted` objects: off by six deviations of samples that stand for `weight` each, once in 10^8 runs. */
static void check_near(const char *what, double found, double wanted, double weight)
{
    double off = found - wanted;

    if (off * off > 36 * wanted * weight)
        fail_msg("%s: %.0f, where %.0f were to be expected", what, found, wanted);
}

static __attribute__((noinline)) void *take(size_t size)
{
    void *object = stook_kmalloc(size, STOOK_WAIT);

    assert_non_null(object);
    memset(object, 0x5a, size);
    return object;
}

/* Objects in use, as reports show them: samples under the class that they stand in for. */
static uint64_t shown(const char *name)
{
    struct stats_cache row;

    for (unsigned i = 0; i < stats_caches(); i++)
        if (stats_read_cache(i, &row) && strcmp(row.name, name) == 0) {
            assert_int_equal(row.internal, strncmp(name, "sampled-", 8) == 0);
            assert_int_equal(row.in_use + row.cached + row.wasted, row.resident);
            return row.active;
        }
    fail_msg("there is no cache %s", name);
    return 0;
}

static void *kept[KEPT];

static void free_kept(void)
{
    for (int i = 0; i < KEPT; i++) {
        stook_free_any(kept[i]);
        kept[i] = NULL;
    }
}

/* Patterns of objects that are kept and others that are freed between them, by their order. */
TEST(test_what_is_in_use)
{
    static const struct {
        const char *name;
        int every, many; /* each so many kept ones, so many are allocated before and freed behind */
        bool pairs;      /* … or one after the other */
    } patterns[] = {{"kept only", 1, 0, false},
                    {"a pair before each", 1, 1, true},
                    {"pairs before each", 1, 5, true},
                    {"one around each", 1, 1, false},
                    {"five around each", 1, 5, false},
                    {"fifty around each tenth", 10, 50, false},
                    {"bursts around each hundredth", 100, 300, false}};
    double weight = sample_weight(SIZE, MEAN);

    for (size_t p = 0; p < sizeof(patterns) / sizeof(patterns[0]); p++) {
        struct sums before = sums("kmalloc-64"), after;
        void *others[300];
        for (int i = 0; i < KEPT; i++) {
            int many = i % patterns[p].every == 0 ? patterns[p].many : 0;
            for (int j = 0; j < many; j++) {
                others[j] = take(SIZE);
                if (patterns[p].pairs)
                    stook_free_any(others[j]);
            }
            kept[i] = take(SIZE);
            for (int j = 0; j < many && !patterns[p].pairs; j++)
                stook_free_any(others[j]);
        }
        after = sums("kmalloc-64");
        check_near(patterns[p].name, after.live - before.live, KEPT, weight);
        assert_int_equal(shown("kmalloc-64"), KEPT);
        assert_int_equal(shown("sampled-64"), 0);
        free_kept();
        after = sums("kmalloc-64");
        assert_int_equal(after.samples, after.gone); /* each free of a sample was seen */
        assert_true(after.live > -0.5 && after.live < 0.5);
    }
    assert_int_equal(atomic_load(&sites.lost), 0);
}

/* Samples are objects like others: as large as their cache's, known to stook_cache_of(), resized in place. */
TEST(test_samples_are_objects)
{
    uint64_t shadows = 0;

    for (int i = 0; i < 20000; i++) {
        size_t size = 1 + (size_t)i % 3000;
        unsigned char *object = stook_kmalloc(size, STOOK_ZERO);
        assert_non_null(object);
        for (size_t j = 0; j < stook_usable_size(object); j++)
            assert_int_equal(object[j], 0);
        assert_int_equal(stook_usable_size(object), stook_kmalloc_size(size));
        if (strncmp(stook_cache_name(stook_cache_of(object)), "sampled-", 8) == 0) {
            shadows++;
            assert_ptr_equal(stook_krealloc(object, stook_kmalloc_size(size), STOOK_WAIT), object);
        }
        memset(object, 0xff, stook_usable_size(object));
        kept[i] = object;
    }
    assert_true(shadows > 100);
    for (int i = 0; i < 20000; i++)
        stook_free_any(kept[i]);
    check_all(NULL, 0);
}

static void *free_all(void *unused)
{
    free_kept();
    return NULL;
}

TEST(test_another_thread_frees)
{
    struct sums sum;
    pthread_t thread;

    for (int i = 0; i < KEPT; i++)
        kept[i] = take(SIZE);
    assert_int_equal(pthread_create(&thread, NULL, free_all, NULL), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    sum = sums("kmalloc-64");
    assert_int_equal(sum.samples, sum.gone);
}

TEST(test_large_objects)
{
    double weight = sample_weight(20 << 10, MEAN);
    struct sums sum;

    for (int i = 0; i < 2000; i++)
        kept[i] = take(20 << 10);
    sum = sums("large");
    check_near("large objects", sum.live, 2000, weight - 1 > 0.05 ? weight - 1 : 0.05);
    for (int i = 0; i < 2000; i++) {
        kept[i] = stook_krealloc(kept[i], 40 << 10, STOOK_WAIT);
        assert_non_null(kept[i]);
    }
    sum = sums("large");
    check_near("large objects that grew", sum.live, 2000, 0.4);
    for (int i = 0; i < 2000; i++)
        stook_free_any(kept[i]);
    sum = sums("large");
    assert_int_equal(sum.samples, sum.gone);
    assert_int_equal(atomic_load(&large_samples_live), 0);
}

/* A move ends one sample and begins another.  Until it is done nothing has become of the first: where it fails, the
 * sample stays.  */
TEST(test_a_move)
{
    size_t large = (size_t)64 << 20;
    struct sums before = sums("large"), after;
    uint32_t live = atomic_load(&large_samples_live);
    void *object = stook_kmalloc(large, STOOK_WAIT), *next = stook_kmalloc(large, STOOK_WAIT);
    struct large_sample sample;

    assert_non_null(object);
    assert_non_null(next); /* so that it cannot grow where it is */
    assert_int_equal(atomic_load(&large_samples_live), live + 2);
    sample = large_samples_take(object);
    assert_true(sample.weight >= 1 && sample.bytes == large);
    assert_true(large_samples_take(object).weight == 0);
    assert_int_equal(atomic_load(&large_samples_live), live + 1);
    large_samples_end(object, &sample, true);
    assert_int_equal(atomic_load(&large_samples_live), live + 2);
    after = sums("large");
    assert_int_equal(after.gone, before.gone);

    object = stook_krealloc(object, 2 * large, STOOK_WAIT);
    assert_non_null(object);
    after = sums("large");
    assert_int_equal(after.samples, before.samples + 3);
    assert_int_equal(after.gone, before.gone + 1);
    assert_int_equal(atomic_load(&large_samples_live), live + 2);
    stook_free_any(object);
    stook_free_any(next);
    after = sums("large");
    assert_int_equal(after.gone, before.gone + 3);
    assert_int_equal(atomic_load(&large_samples_live), live);
}

/* Of these, only allocations are known. */
TEST(test_typed_caches)
{
    struct stook_cache *cache = stook_cache_create("typed", SIZE, NULL);
    struct sums sum;

    for (int i = 0; i < KEPT; i++)
        kept[i] = stook_alloc(cache, STOOK_WAIT);
    sum = sums("typed");
    check_near("a typed cache", sum.came, KEPT, sample_weight(SIZE, MEAN));
    for (int i = 0; i < KEPT; i++)
        stook_free(cache, kept[i]);
    sum = sums("typed");
    assert_int_equal(sum.gone, 0);
    assert_int_equal(stook_cache_destroy(cache), 0);
}

/* Switched off, none comes, and those there were are still known when they go. */
TEST(test_off)
{
    struct sums before, after;

    for (int i = 0; i < KEPT; i++)
        kept[i] = take(SIZE);
    before = sums("kmalloc-64");
    assert_true(before.samples > before.gone);
    shadow_begin(0);
    stook_kmalloc_doors();
    for (int i = 0; i < KEPT; i++)
        stook_free_any(take(SIZE));
    free_kept();
    for (int i = 0; i < KEPT; i++)
        kept[i] = take(SIZE);
    free_kept();
    after = sums("kmalloc-64");
    assert_int_equal(after.samples, before.samples);
    assert_int_equal(after.samples, after.gone);
}

static int setup(void **unused)
{
    shadow_begin(MEAN);
    stook_kmalloc_doors();
    return 0;
}

int main(void)
{
    return tests_run(setup, NULL);
}
