/* SPDX-License-Identifier: MIT */
/* needs: whole */
/*
 * Which allocations are samples: distances are exponential; each of N allocations is one with the same probability,
 * whatever came before; of two lines each has its share.  Where nothing is sampled, no allocation is counted.
 */
#include "kmalloc/kmalloc.h"
#include "sample/sample.h"
#include "sample/shadow.h"

#include "support/check.h"
#include "support/environment.h"
#include "support/test.h"

#include <stook/kmalloc.h>
#include <stook/stook.h>

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

TEST(test_distances_are_exponential)
{
    static const double share[] = {0.367879, 0.135335, 0.049787}; /* beyond one, two, three means */
    static const uint64_t means[] = {1000, 1 << 20, (uint64_t)1 << 40};

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

/* 1 - exp(-x), without the mathematical library: by a series where x is small, and e(2x) = e(x) (2 - e(x)). */
static double certainty(double x)
{
    unsigned doublings = 0;
    double term, sum = 0;

    if (x > 700)
        return 1;
    for (; x > 0.05; doublings++)
        x /= 2;
    term = -1;
    for (int i = 1; i < 12; i++)
        sum += term *= -x / i;
    for (; doublings > 0; doublings--)
        sum *= 2 - sum;
    return sum;
}

/* Of bytes that are certain, of an object far below the mean, and of what lies between. */
TEST(test_weights)
{
    for (double size = 1; size < 1e9; size = size * 1.37 + 1)
        for (double mean = 1; mean < 1e12; mean *= 3.1) {
            double bytes = (double)(uint64_t)size, every = (double)(uint64_t)mean;
            double wanted = 1 / certainty(bytes / every);
            double off = (double)sample_weight((uint64_t)size, (uint64_t)mean) / wanted - 1;
            if (off > 1e-5 || off < -1e-5)
                fail_msg("%.0f bytes each %.0f: off by %.7f", bytes, every, off);
        }
}

/* Whether an allocation of so many bytes is a sample. */
static bool sampled(uint64_t size)
{
    return sample_is_due(size) && sample_take(size).weight > 0;
}

/* Whatever came before. */
TEST(test_each_allocation_has_its_chance)
{
    static const unsigned means[] = {1, 4, 1000};
    static const double share[] = {1 - 0.367879, 1 - 0.778801, 1 - 0.999000};

    for (unsigned m = 0; m < 3; m++) {
        uint64_t samples = 0, neighbours = 0, pairs = 0;
        bool before = false;
        sample_begin(SAMPLE_GUARD, (uint64_t)means[m] * SIZE);
        for (int i = 0; i < OBJECTS; i++) {
            bool due = sampled(SIZE);
            samples += due;
            pairs += before;
            neighbours += before && due;
            before = due;
        }
        check_share("samples", samples, OBJECTS, share[m]);
        check_share("samples behind samples", neighbours, pairs, share[m]);
    }
    sample_begin(SAMPLE_GUARD, 0);
}

/* Sizes that are mixed, of two lines: each line's samples stand for all allocations of each size. */
TEST(test_two_lines)
{
    static const uint64_t sizes[] = {1, 100, 3000, 70000, 1 << 20};
    static const uint64_t mean[SAMPLE_LINES] = {40000, 9000};
    enum { SIZES = 5, TURNS = 400000 };
    double stood[SAMPLE_LINES][SIZES] = {{0}}, weight[SAMPLE_LINES][SIZES] = {{0}};
    uint64_t came[SIZES] = {0};

    for (enum sample_line line = 0; line < SAMPLE_LINES; line++)
        sample_begin(line, mean[line]);
    for (int i = 0; i < TURNS; i++) {
        unsigned which = (unsigned)(draw() % SIZES);
        struct sample sample = {.weight = 0};
        came[which]++;
        if (sample_is_due(sizes[which]))
            sample = sample_take(sizes[which]);
        stood[sample.line][which] += (double)sample.weight;
        if (sample.weight > 0)
            weight[sample.line][which] = (double)sample.weight;
    }
    for (enum sample_line line = 0; line < SAMPLE_LINES; line++)
        for (unsigned which = 0; which < SIZES; which++) {
            double off = stood[line][which] - (double)came[which];
            /* Where there was no sample at all, it was for want of bytes. */
            if (weight[line][which] == 0)
                weight[line][which] = (double)mean[line] / (double)sizes[which];
            if (off * off > 49 * (double)came[which] * weight[line][which])
                fail_msg("line %d, %llu bytes: %.0f, where %llu came", (int)line,
                         (unsigned long long)sizes[which], stood[line][which],
                         (unsigned long long)came[which]);
        }
    for (enum sample_line line = 0; line < SAMPLE_LINES; line++)
        sample_begin(line, 0);
}

/* The first samples of eight children of one parent are not the same. */
TEST(test_children_differ)
{
    int64_t first[8];
    int ends[2], same = 0;

    sample_begin(SAMPLE_GUARD, (uint64_t)1 << 30);
    (void)sampled(1);
    assert_true(sample_left > 0);
    assert_int_equal(pipe(ends), 0);
    for (int i = 0; i < 8; i++) {
        pid_t pid = fork();
        if (pid == 0) {
            (void)sampled(1);
            _exit(write(ends[1], &sample_left, sizeof(sample_left)) != sizeof(sample_left));
        }
        assert_int_equal(waitpid(pid, NULL, 0), pid);
        assert_int_equal(read(ends[0], &first[i], sizeof(first[i])), sizeof(first[i]));
        for (int j = 0; j < i; j++)
            same += first[j] == first[i];
    }
    assert_int_equal(same, 0);
    sample_begin(SAMPLE_GUARD, 0);
}

static bool closed(const struct stook_cache *cache)
{
    return cache_hooks(cache) & CACHE_CLOSED_WATCHED;
}

/* No allocation is counted before something is sampled.  Then typed caches are closed, those of before and those to
 * come; and of kmalloc's caches, which stay open, each allocation is counted. */
TEST(test_the_door)
{
    struct stook_cache *before = stook_cache_create("before", SIZE, NULL), *after;
    void *object = stook_kmalloc(SIZE, STOOK_WAIT), *typed = stook_alloc(before, STOOK_WAIT);
    int64_t left = sample_left;

    for (int i = 0; i < 1000; i++) {
        stook_free_any(stook_kmalloc(SIZE, STOOK_WAIT));
        stook_free(before, stook_alloc(before, STOOK_WAIT));
    }
    assert_int_equal(sample_left, left);
    assert_false(closed(before));
    shadow_begin((uint64_t)1 << 40);
    stook_kmalloc_doors();
    after = stook_cache_create("after", SIZE, NULL);
    assert_true(closed(before) && closed(after) && !cache_hooks(stook_cache_of(object)));
    (void)sampled(1);
    left = sample_left;
    for (int i = 0; i < 1000; i++) {
        void *objects[10];
        stook_free_any(stook_kmalloc(SIZE, STOOK_WAIT));
        stook_free(before, stook_alloc(before, STOOK_WAIT));
        assert_int_equal(stook_alloc_bulk(after, STOOK_WAIT, 10, objects), 0);
        stook_free_bulk(after, 10, objects);
    }
    assert_int_equal(left - sample_left, 1000 * (SIZE + 1 + 11 * SIZE));
    shadow_begin(0);
    stook_kmalloc_doors();
    left = sample_left;
    stook_free_any(object);
    stook_free(before, typed);
    for (int i = 0; i < 1000; i++)
        stook_free_any(stook_kmalloc(SIZE, STOOK_WAIT));
    assert_int_equal(sample_left, left);
    check_all(NULL, 0);
    assert_int_equal(stook_cache_destroy(before), 0);
    assert_int_equal(stook_cache_destroy(after), 0);
}

TESTS_WITH_SETTING("STOOK_SAMPLE", "0")
