/* SPDX-License-Identifier: MIT */
/* needs: whole */
/*
 * Which allocations are samples: distances are exponential; a sheaf is handed over up to the next point and what
 * lies beyond is not lost; each of N allocations is one with the same probability, whatever came before.
 */
#include "sample/sample.h"

#include "base/hooks.h"
#include "support/check.h"
#include "support/environment.h"
#include "support/stay.h"

#include <stook/stat.h>
#include <stook/stook.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { DRAWS = 200000, OBJECTS = 120000, SIZE = 64 };

static uint64_t seed = 88172645463325252u;

static uint64_t draw(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return seed;
}

/* So many of n, each with probability p: off by seven deviations once in 10^11 runs. */
static void check_share(const char *what, uint64_t count, uint64_t n, double p)
{
    double wanted = (double)n * p, variance = wanted * (1 - p), off = (double)count - wanted;

    if (off * off > 49 * variance)
        fail_msg("%s: %llu of %llu, where %.0f were to be expected", what,
                 (unsigned long long)count, (unsigned long long)n, wanted);
}

static void test_distances_are_exponential(void **unused)
{
    static const double share[] = {0.367879, 0.135335, 0.049787}; /* beyond one, two, three means */
    static const uint64_t means[] = {1000, 1 << 20, (uint64_t)1 << 40};

    (void)unused;
    assert_true(sample_distance(1, 0) > 1);
    assert_true(sample_distance(1 << 20, UINT64_MAX) <= 1 + (1 << 4));
    assert_true(sample_distance(1 << 20, 0) <= (uint64_t)45 << 20);
    for (size_t m = 0; m < 3; m++) {
        uint64_t beyond[3] = {0}, mean = means[m];
        double sum = 0;
        for (int i = 0; i < DRAWS; i++) {
            uint64_t distance = sample_distance(mean, draw());
            assert_true(distance >= 1);
            sum += (double)distance;
            for (unsigned k = 0; k < 3; k++)
                beyond[k] += distance > (k + 1) * mean;
        }
        for (unsigned k = 0; k < 3; k++)
            check_share("beyond means", beyond[k], DRAWS, share[k]);
        /* The mean's own deviation is mean / sqrt(DRAWS): 447.2 */
        assert_true(sum / DRAWS > (double)mean * (1 - 7 / 447.0) - 1);
        assert_true(sum / DRAWS < (double)mean * (1 + 7 / 447.0) + 1);
    }
}

/* By hand, as a slot does it: a token stands for the object behind those that may be handed over. */
static void test_sheaves_are_handed_over_short(void **unused)
{
    struct stook_cache *cache = stook_cache_create("short", SIZE, NULL);
    uint64_t handed = 0, samples = 0;
    uint32_t token;

    (void)unused;
    sample_begin(SAMPLE_GUARD, 10 * SIZE);
    while (handed < OBJECTS) {
        uint32_t n = 1 + (uint32_t)(draw() % 30), may;
        token = 0;
        may = sample_hand_over(cache, 0, n, &token);
        assert_true(may <= n);
        assert_int_equal(may < n, token != 0);
        assert_int_equal(sample_take(cache).lines, 0);
        handed += may + (token != 0);
        samples += token != 0;
    }
    check_share("samples", samples, handed, 1 - 0.904837);
    assert_int_equal(stook_cache_destroy(cache), 0);
}

/* Allocations of one thread, none of which is freed in between: their samples, and the gaps between these. */
static void test_each_allocation_has_its_chance(void **unused)
{
    static void *objects[OBJECTS];
    static const unsigned means[] = {1, 4, 1000};
    static const double share[] = {1 - 0.367879, 1 - 0.778801, 1 - 0.999000};

    (void)unused;
    for (unsigned m = 0; m < 3; m++) {
        struct stook_cache *cache = stook_cache_create("chance", SIZE, NULL);
        uint64_t samples = 0, neighbours = 0, pairs = 0;
        bool before = false;
        assert_non_null(cache);
        sample_begin(SAMPLE_GUARD, (uint64_t)means[m] * SIZE);
        for (int i = 0; i < OBJECTS; i++) {
            bool due;
            objects[i] = stook_alloc(cache, STOOK_NORECLAIM);
            assert_non_null(objects[i]);
            due = sample_take(cache).lines != 0;
            samples += due;
            pairs += before;
            neighbours += before && due;
            before = due;
            *(int *)objects[i] = i;
        }
        for (int i = 0; i < OBJECTS; i++)
            assert_int_equal(*(int *)objects[i], i); /* each is one of its own */
        check_share("samples", samples, OBJECTS, share[m]);
        check_share("samples behind samples", neighbours, pairs, share[m]);
        for (int i = 0; i < OBJECTS; i++)
            stook_free(cache, objects[i]);
        check_all(NULL, 0);
        assert_int_equal(stook_cache_destroy(cache), 0);
    }
}

/* Arrays too: no object of them is handed out twice or lost. */
static void test_arrays(void **unused)
{
    struct stook_cache *cache = stook_cache_create("arrays", SIZE, NULL);
    static void *objects[OBJECTS];
    uint64_t calls = 0, samples = 0;

    (void)unused;
    sample_begin(SAMPLE_GUARD, 100 * SIZE);
    for (size_t at = 0, n; at < OBJECTS; at += n, calls++) {
        n = 1 + draw() % 300;
        n = n < OBJECTS - at ? n : OBJECTS - at;
        assert_int_equal(stook_alloc_bulk(cache, STOOK_NORECLAIM, n, objects + at), 0);
        samples += sample_take(cache).lines != 0;
    }
    assert_true(samples > calls / 4); /* an array has 1.5 of them in the mean */
    for (int i = 0; i < OBJECTS; i++)
        *(int *)objects[i] = i;
    for (int i = 0; i < OBJECTS; i++)
        assert_int_equal(*(int *)objects[i], i);
    stook_free_bulk(cache, OBJECTS, objects);
    check_all(NULL, 0);
    assert_int_equal(stook_cache_destroy(cache), 0);
}

/* A pair that stays in a sheaf meets no slow path, and is no sample. */
static void test_pairs_are_not_counted(void **unused)
{
    struct stook_cache *cache = stook_cache_create("pairs", SIZE, NULL);
    uint64_t samples = 0;

    (void)unused;
    sample_begin(SAMPLE_GUARD, (uint64_t)OBJECTS * SIZE);
    for (int i = 0; i < 20 * OBJECTS; i++) {
        void *object = stook_alloc(cache, STOOK_NORECLAIM);
        samples += sample_take(cache).lines != 0;
        stook_free(cache, object);
    }
    assert_true(samples < 5); /* were they counted: 20 in the mean */
    assert_int_equal(stook_cache_destroy(cache), 0);
}

/* Objects come in the order that they would come in without samples, by the same refills, and none goes to a barn or a
 * slab on the way, also where a refill is larger than a sheaf. */
static void test_points_move_nothing(void **unused)
{
    enum { MANY = 6000 };
    static char *object[2][MANY];
    struct stook_stat stat[2] = {{.size = sizeof(stat[0])}, {.size = sizeof(stat[1])}};
    struct stook_cache *both[2];
    cpu_set_t cpus;
    uint64_t samples = 0;
    unsigned same = 0, slabs = 0;

    (void)unused;
    stay_begin(&cpus);
    for (unsigned with = 0; with < 2; with++) {
        struct stook_cache *cache = both[with] = stook_cache_create("moves", SIZE, NULL);
        sample_begin(SAMPLE_GUARD, with ? 20 * SIZE : (uint64_t)1 << 47);
        assert_int_equal(stook_cache_stat_enable(cache, STOOK_STATS_SLOW), 0);
        for (unsigned i = 0; i < MANY; i++) {
            assert_non_null(object[with][i] = stook_alloc(cache, 0));
            samples += sample_take(cache).lines != 0;
        }
        assert_int_equal(stook_cache_stat(cache, &stat[with]), 0);
    }
    stay_end(&cpus);
    for (unsigned with = 0; with < 2; with++) {
        for (unsigned i = 0; i < MANY; i++)
            stook_free(both[with], object[with][i]);
        assert_int_equal(stook_cache_destroy(both[with]), 0);
    }
    check_share("points", samples, MANY, 0.0488);
    for (unsigned i = 1; i < MANY; i++)
        if (((uintptr_t)object[0][i] ^ (uintptr_t)object[0][i - 1]) < 4096)
            same += object[1][i] - object[1][i - 1] == object[0][i] - object[0][i - 1];
        else /* slabs lie where they find room */
            slabs++;
    assert_true(same + slabs == MANY - 1 && slabs < MANY / 10);
    assert_int_equal(stat[1].sheaf_refill, stat[0].sheaf_refill);
    assert_int_equal(stat[1].barn_put + stat[1].barn_put_fail + stat[1].sheaf_flush, 0);
}

/* Allocations of a thread that has debts: each sample stands for as many objects as are passed over, whatever the
 * debts are then.  They are larger than what the objects here pay. */
static void test_debts_thin_out_samples(void **unused)
{
    static void *objects[OBJECTS];
    static const struct {
        uint64_t step; /* of the debts; a point of how many counts */
        double mean;
    } phases[] = {{7, 8}, {13, 2}, {100, 1}, {1, (double)(1 << SAMPLE_SHIFT_MOST)}, {13, 2}};
    uint64_t before = sample_debt_step;
    float weight;

    (void)unused;
    sample_begin(SAMPLE_GUARD, 0);
    sample_begin(SAMPLE_PROFILE, 4 * SIZE);
    (void)sample_large(1, &weight); /* has no debts of another mean */
    for (int i = 0; i < 2500000; i++)
        sample_paid();
    for (unsigned m = 0; m < sizeof(phases) / sizeof(phases[0]); m++) {
        struct stook_cache *cache = stook_cache_create("debts", SIZE, NULL);
        double mean = 4 * phases[m].mean, x = 1 / mean, p = x - x * x / 2 + x * x * x / 6;
        uint64_t samples = 0;
        assert_non_null(cache);
        if (phases[m].mean == 1)
            p = 0.221199;
        sample_debt_step = phases[m].step * 100000;
        sample_paid();
        for (int i = 0; i < OBJECTS; i++) {
            struct sample sample;
            assert_non_null(objects[i] = stook_alloc(cache, STOOK_NORECLAIM));
            sample = sample_take(cache);
            samples += sample.lines != 0;
            if (sample.lines != 0 && i > OBJECTS / 100) /* a point may count from before */
                assert_true((double)sample.weight * p > 0.995 && (double)sample.weight * p < 1.005);
        }
        check_share("samples of a debtor", samples, OBJECTS, p);
        for (int i = 0; i < OBJECTS; i++)
            stook_free(cache, objects[i]);
        assert_int_equal(stook_cache_destroy(cache), 0);
    }
    sample_debt_step = before;
    sample_begin(SAMPLE_PROFILE, 0);
}

/* How often the distance of this thread's points has doubled: what the place of a freed sample stands for, if it goes
 * on, is of the distance now. */
static unsigned doublings(void)
{
    uint32_t token = 0, bits;
    unsigned shift = 0;
    float weight;

    while (token == 0)
        token = sample_again(1, SAMPLE_PAYS);
    bits = ((token & 0x3fff) + (127 << 8)) << 15;
    memcpy(&weight, &bits, sizeof(weight));
    while (shift < SAMPLE_SHIFT_MOST &&
           sample_weight(SAMPLE_PAYS, SAMPLE_PAYS << shift) < weight * 0.99F)
        shift++;
    return shift;
}

/* A mean distance is paid for by as many objects that are counted as pay it together, afterwards; saved up is nothing. */
static void test_objects_pay(void **unused)
{
    static const struct {
        unsigned samples, objects, doublings; /* an object pays for a sample */
    } steps[] = {{0, 1000, 0}, {64, 0, 1}, {128, 0, 3},
                 {0, 64, 2},   {0, 64, 1}, {0, 9999, 0},
                 {63, 0, 0},   {1, 0, 1},  {5000, 0, SAMPLE_SHIFT_MOST}};
    struct stook_cache *cache = stook_cache_create("pays", SIZE, NULL);
    uint32_t token;

    (void)unused;
    assert_non_null(cache);
    sample_begin(SAMPLE_GUARD, 0);
    sample_begin(SAMPLE_PROFILE, SAMPLE_PAYS);
    (void)sample_hand_over(cache, 0, 1, &token); /* of the new mean */
    for (unsigned i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
        for (unsigned n = 0; n <= steps[i].objects; n++) /* and one that pays for the next sample */
            (void)sample_hand_over(cache, 0, 1, &token);
        for (unsigned n = 0; n <= steps[i].samples; n++)
            sample_paid();
        assert_int_equal(doublings(), steps[i].doublings);
    }
    sample_begin(SAMPLE_PROFILE, 0);
    assert_int_equal(stook_cache_destroy(cache), 0);
}

/* The first samples of two children of one parent are not the same. */
static void test_children_differ(void **unused)
{
    struct stook_cache *cache = stook_cache_create("children", SIZE, NULL);
    uint32_t first[8];
    int ends[2], same = 0;
    uint32_t token;

    (void)unused;
    sample_begin(SAMPLE_GUARD, (uint64_t)1 << 30);
    (void)sample_hand_over(cache, 0, 1, &token);
    assert_int_equal(pipe(ends), 0);
    for (int i = 0; i < 8; i++) {
        pid_t pid = fork();
        if (pid == 0) {
            uint32_t may = sample_hand_over(cache, 0, UINT32_MAX, &token);
            _exit(write(ends[1], &may, sizeof(may)) != sizeof(may));
        }
        assert_int_equal(waitpid(pid, NULL, 0), pid);
        assert_int_equal(read(ends[0], &first[i], sizeof(first[i])), sizeof(first[i]));
        for (int j = 0; j < i; j++)
            same += first[j] == first[i];
    }
    assert_int_equal(same, 0);
    assert_int_equal(stook_cache_destroy(cache), 0);
}

/* A thread that is far from its next point comes to one of the new mean. */
static void test_the_mean_changes(void **unused)
{
    struct stook_cache *cache = stook_cache_create("changed", SIZE, NULL);
    uint32_t token = 0;

    (void)unused;
    sample_begin(SAMPLE_GUARD, (uint64_t)1 << 48);
    assert_int_equal(sample_hand_over(cache, 0, 1000, &token), 1000);
    sample_begin(SAMPLE_GUARD, 1);
    assert_int_equal(sample_hand_over(cache, 0, 1000, &token), 0);
    assert_int_not_equal(token, 0);
    token = 0;
    sample_begin(SAMPLE_GUARD, (uint64_t)1 << 48);
    assert_int_equal(sample_hand_over(cache, 0, 1000, &token), 1000);
    assert_int_equal(token, 0);
    assert_int_equal(stook_cache_destroy(cache), 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_distances_are_exponential),
        cmocka_unit_test(test_sheaves_are_handed_over_short),
        cmocka_unit_test(test_each_allocation_has_its_chance),
        cmocka_unit_test(test_arrays),
        cmocka_unit_test(test_pairs_are_not_counted),
        cmocka_unit_test(test_points_move_nothing),
        cmocka_unit_test(test_debts_thin_out_samples),
        cmocka_unit_test(test_objects_pay),
        cmocka_unit_test(test_children_differ),
        cmocka_unit_test(test_the_mean_changes),
    };

    (void)argc;
    environment_need("STOOK_SAMPLE", "0", argv); /* a profile takes what it is told of */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
