/* SPDX-License-Identifier: MIT */
#include "sample/sample.h"

#include "base/placed.h"
#include "base/hooks.h"
#include "percpu/random.h"

#include <stdatomic.h>
#include <time.h>

enum {
    SAMPLE_FRACTION = 16, /* bits of a logarithm's fraction */
    SAMPLE_LN2 = 45426,   /* of 1 << 16 */
    SAMPLE_MEAN_BITS = 48,
};

static _Atomic uint64_t sample_mean;  /* 0: not begun */
static _Atomic uint64_t sample_key;   /* what tells a child's numbers from its parent's */
static _Atomic uint32_t sample_begun; /* how often: distances of another mean are drawn anew */

/* Bytes to the thread's next point; 0: not drawn yet.  And what its random numbers come from. */
static __thread uint64_t sample_left __attribute__((tls_model("initial-exec")));
static __thread uint64_t sample_state __attribute__((tls_model("initial-exec")));
static __thread uint32_t sample_drawn __attribute__((tls_model("initial-exec")));

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

/* splitmix64, which a thread begins where a CPU's generator stands. */
static uint64_t sample_random(void)
{
    uint64_t z;

    if (sample_state == 0)
        sample_state = ((uint64_t)random_below(UINT32_MAX) << 32 | random_below(UINT32_MAX)) ^
                       atomic_load_explicit(&sample_key, memory_order_relaxed);
    z = sample_state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static uint64_t sample_next(void)
{
    return sample_distance(atomic_load_explicit(&sample_mean, memory_order_relaxed),
                           sample_random());
}

uint32_t sample_hand_over(const struct stook_cache *cache, uint32_t n, uint32_t some, bool own)
{
    uint64_t size = cache->layout.stride, before;
    uint32_t taken = 0, begun;

    if (cache->flags & CACHE_INTERNAL)
        return n;
    begun = atomic_load_explicit(&sample_begun, memory_order_relaxed);
    if (__builtin_expect(sample_left == 0 || sample_drawn != begun, 0)) {
        sample_drawn = begun;
        sample_left = sample_next();
    }
    if (own && sample_left <= size) { /* the point is in the caller's object */
        context_self()->sampled = cache;
        sample_left = sample_next();
        taken = 1;
        n--;
    }
    before = (sample_left - 1) / size; /* objects that end before the point */
    if (before < n)
        n = before < some - taken ? (uint32_t)before : some - taken;
    sample_left -= n * size;
    return taken + n;
}

void sample_begin(uint64_t mean)
{
    atomic_store_explicit(&sample_mean, mean, memory_order_relaxed);
    atomic_fetch_add_explicit(&sample_begun, 1, memory_order_release);
    /* Release: the mean. */
    __atomic_store_n(&hooks_set.sample, sample_hand_over, __ATOMIC_RELEASE);
}

FIRST_TEXT void sample_child(void)
{
    struct timespec now = {0};

    if (atomic_load_explicit(&sample_mean, memory_order_relaxed) == 0)
        return;
    (void)clock_gettime(CLOCK_MONOTONIC, &now); /* without the kernel, mostly */
    atomic_fetch_add_explicit(&sample_key,
                              ((uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec) *
                                  0x9e3779b97f4a7c15u,
                              memory_order_relaxed);
    sample_state = sample_left = 0;
}
