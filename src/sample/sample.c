/* SPDX-License-Identifier: MIT */
/*
 * sample.c - the countdown of each thread: distances, and what becomes of it when it ends (sample.h).
 */
#include "sample/sample.h"

#include "base/placed.h"
#include "os/os.h"
#include "percpu/random.h"
#include "sample/sites.h"

enum {
    SAMPLE_FRACTION = 16, /* bits of a logarithm's fraction */
    SAMPLE_LN2 = 45426,   /* of 1 << 16 */
    SAMPLE_MEAN_BITS = 48,
};

_Atomic uint64_t sample_mean[SAMPLE_LINES], sample_period;
/* How often a line began: then each thread draws its distance anew. */
static _Atomic uint32_t sample_begun;
static _Atomic uint64_t sample_key; /* what tells a child's numbers from its parent's */

__thread int64_t sample_left;

/* A thread's. */
static __thread struct {
    uint64_t state; /* what its random numbers come from */
    uint32_t begun; /* sample_begun when its distance was drawn; 0: never */
} sample_own __attribute__((tls_model("initial-exec")));

/* -ln(u) * mean, u being random / 2^64: the logarithm to base 2 bit by bit, by squaring. */
uint64_t sample_distance(uint64_t mean, uint64_t random)
{
    unsigned zeros;
    uint64_t mantissa, fraction = 0, log;

    random |= 1;
    if (mean >> SAMPLE_MEAN_BITS)
        mean = (uint64_t)1 << SAMPLE_MEAN_BITS;
    zeros = (unsigned)__builtin_clzll(random);
    mantissa = random << zeros; /* from 1 to 2, in units of 2^-63 */
    for (int i = 0; i < SAMPLE_FRACTION; i++) {
        unsigned __int128 square = (unsigned __int128)mantissa * mantissa >> 63;
        unsigned above = (unsigned)(square >> 64) & 1;
        mantissa = (uint64_t)(square >> above);
        fraction = fraction << 1 | above;
    }
    log = ((uint64_t)(zeros + 1) << SAMPLE_FRACTION) - fraction;
    return (uint64_t)((unsigned __int128)log * SAMPLE_LN2 * mean >> 2 * SAMPLE_FRACTION) + 1;
}

float sample_weight(uint64_t size, uint64_t mean)
{
    double x = (double)size / (double)mean, part = x, miss;
    int halvings = 0;

    if (x > 32)
        return 1;
    while (part > 1.0 / 64) {
        part /= 2;
        halvings++;
    }
    /* 1 - exp(-part), by its series; of twice the part it is 1 - (1 - that)^2. */
    miss = part * (1 - part / 2 * (1 - part / 3 * (1 - part / 4)));
    while (halvings-- > 0)
        miss = miss * (2 - miss);
    return (float)(1 / miss);
}

/* splitmix64, which a thread begins where a CPU's generator stands. */
static uint64_t sample_random(void)
{
    if (sample_own.state == 0)
        sample_own.state = random_word() ^ atomic_load_explicit(&sample_key, memory_order_relaxed);
    return os_mix(sample_own.state += 0x9e3779b97f4a7c15u);
}

struct sample sample_take(uint64_t size)
{
    struct sample sample = {.weight = 0};
    uint32_t begun = atomic_load_explicit(&sample_begun, memory_order_acquire);
    uint64_t period = atomic_load_explicit(&sample_period, memory_order_relaxed), mean;

    if (period == 0)
        return sample;
    if (sample_own.begun != begun) { /* it counted down to nothing yet */
        sample_own.begun = begun;
        sample_left = (int64_t)(sample_distance(period, sample_random()) - size);
        if (sample_left > 0)
            return sample;
    }
    sample_left = (int64_t)sample_distance(period, sample_random());
    mean = sample_mean_of(SAMPLE_PROFILE);
    /* period / mean of all samples are the profile's: 1 / period is the sum of 1 / mean of both. */
    if (mean != 0 && (mean <= period || (unsigned __int128)sample_random() * mean >> 64 < period))
        sample.line = SAMPLE_PROFILE;
    else
        mean = sample_mean_of(SAMPLE_GUARD);
    if (mean != 0)
        sample.weight =
            (float)((double)sample_weight(size, period) * ((double)mean / (double)period));
    return sample;
}

void sample_begin(enum sample_line line, uint64_t mean)
{
    uint64_t a, b;

    atomic_store_explicit(&sample_mean[line], mean, memory_order_relaxed);
    a = sample_mean_of(SAMPLE_GUARD);
    b = sample_mean_of(SAMPLE_PROFILE);
    if (a != 0 && b != 0) {
        a = (uint64_t)((unsigned __int128)a * b / (a + b));
        b = a > 0 ? 0 : 1;
    }
    atomic_store_explicit(&sample_period, a + b, memory_order_seq_cst);
    /* Release: what was written before. */
    atomic_fetch_add_explicit(&sample_begun, 1, memory_order_release);
    sample_left = 0; /* other threads draw anew where they have counted down */
}

SECOND_TEXT void sample_child(void)
{
    if (!sample_is_on())
        return;
    atomic_fetch_add_explicit(&sample_key, sites_thread() * 0x9e3779b97f4a7c15u,
                              memory_order_relaxed);
    sample_own.state = sample_own.begun = 0;
    sample_left = 0;
}
