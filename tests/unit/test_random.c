/* SPDX-License-Identifier: MIT */
/*
 * The generators of random order: below a bound, spread, different on every CPU and in every
 * process, of use to a handler; permutations have each index once and are no rotation.
 */
#include "percpu/random.h"
#include "support/test.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/time.h>

enum { DRAWS = 64000 };

/*
 * Counts of equally likely cells: chi-square's mean is cells - 1 and its deviation sqrt(2 cells);
 * eight deviations above are met once in 10^12 runs or so.
 */
static void check_spread(const uint32_t *count, uint32_t cells, uint32_t draws)
{
    double mean = (double)draws / cells, sum = 0, most = cells;

    for (uint32_t i = 0; i < cells; i++)
        sum += (count[i] - mean) * (count[i] - mean) / mean;
    for (double root = 1; root * root < 2 * 64 * (double)cells; root++)
        most++;
    if (sum > most + 20)
        fail_msg("chi-square of %u cells: %.1f, at most %.1f", cells, sum, most + 20);
}

TEST(below_a_bound)
{
    static const uint32_t bounds[] = {1, 2, 3, 7, 64, 100, 1000};
    static uint32_t count[1000];

    for (unsigned b = 0; b < sizeof(bounds) / sizeof(bounds[0]); b++) {
        memset(count, 0, sizeof(count));
        for (uint32_t i = 0; i < DRAWS; i++) {
            uint32_t value = random_below(bounds[b]);
            assert_true(value < bounds[b]);
            count[value]++;
        }
        check_spread(count, bounds[b], DRAWS);
    }
}

/* Draws in a row are as good as single ones: pairs are spread too. */
TEST(pairs)
{
    static uint32_t count[256];

    for (uint32_t i = 0; i < DRAWS; i++) {
        uint32_t first = random_below(16);
        count[16 * first + random_below(16)]++;
    }
    check_spread(count, 256, DRAWS);
}

TEST(permutations)
{
    static uint16_t index[32767], other[32767];
    static const uint32_t sizes[] = {1, 2, 3, 64, 100, 4096, 32767};
    static bool seen[32767];

    for (unsigned s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
        uint32_t n = sizes[s], fixed = 0, same = 0, steps = 0;
        random_permute(index, n);
        random_permute(other, n);
        memset(seen, 0, sizeof(seen));
        for (uint32_t i = 0; i < n; i++) {
            assert_true(index[i] < n && !seen[index[i]]);
            seen[index[i]] = true;
            fixed += index[i] == i;
            same += index[i] == other[i];
            steps += i > 0 && index[i] == index[i - 1] + 1;
        }
        /* Each of these is 1 on average; 20 is met once in 10^18. */
        if (n >= 64)
            assert_true(fixed < 20 && same < 20 && steps < 20);
    }
}

/* Every index is as likely at every place, and every pointer. */
TEST(permutations_are_even)
{
    enum { N = 8, ROUNDS = 8000 };
    static uint32_t count[2][N * N];
    uint16_t index[N];
    void *pointer[N];

    for (unsigned round = 0; round < ROUNDS; round++) {
        random_permute(index, N);
        for (unsigned i = 0; i < N; i++)
            pointer[i] = &index[i];
        random_shuffle(pointer, N);
        for (unsigned i = 0; i < N; i++) {
            count[0][N * i + index[i]]++;
            count[1][N * i + (size_t)((uint16_t *)pointer[i] - index)]++;
        }
    }
    check_spread(count[0], N * N, N * ROUNDS);
    check_spread(count[1], N * N, N * ROUNDS);
}

/* Two CPUs, or two threads of one, do not draw the same numbers. */
static void *draw(void *to)
{
    for (unsigned i = 0; i < 64; i++)
        ((uint32_t *)to)[i] = random_below(1u << 16);
    return NULL;
}

TEST(threads_draw_others)
{
    static uint32_t drawn[8][64];
    pthread_t thread[8];

    for (unsigned t = 0; t < 8; t++)
        assert_int_equal(pthread_create(&thread[t], NULL, draw, drawn[t]), 0);
    for (unsigned t = 0; t < 8; t++)
        pthread_join(thread[t], NULL);
    for (unsigned t = 1; t < 8; t++)
        for (unsigned u = 0; u < t; u++)
            assert_true(memcmp(drawn[t], drawn[u], sizeof(drawn[t])) != 0);
}

/* Each start draws a seed from the kernel; these two are starts of one process. */
TEST(starts_differ)
{
    uint32_t first[64], second[64];
    cpu_set_t all, one;

    sched_getaffinity(0, sizeof(all), &all);
    CPU_ZERO(&one);
    CPU_SET((unsigned)sched_getcpu(), &one);
    assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
    random_init();
    draw(first);
    random_init();
    draw(second);
    sched_setaffinity(0, sizeof(all), &all);
    assert_true(memcmp(first, second, sizeof(first)) != 0);
}

static atomic_uint handled; /* TSan lets handlers run at atomic operations */
static volatile uint32_t of_handler;

static void handler(int signal)
{
    of_handler ^= random_below(1u << 16);
    atomic_fetch_add(&handled, 1);
}

/* A handler that interrupts a draw draws too, and neither waits. */
TEST(in_a_handler)
{
    struct itimerval often = {{0, 200}, {0, 200}}, never = {{0, 0}, {0, 0}};
    static uint32_t count[64];
    uint32_t draws = 0;

    signal(SIGALRM, handler);
    assert_int_equal(setitimer(ITIMER_REAL, &often, NULL), 0);
    while (atomic_load(&handled) < 200) {
        count[random_below(64)]++;
        draws++;
    }
    setitimer(ITIMER_REAL, &never, NULL);
    signal(SIGALRM, SIG_DFL);
    check_spread(count, 64, draws);
}
