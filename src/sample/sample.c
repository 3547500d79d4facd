/* SPDX-License-Identifier: MIT */
#include "sample/sample.h"

#include "base/hooks.h"
#include "percpu/random.h"
#include "sample/sites.h"
#include "sheaf/slot.h"

#include <stdatomic.h>
#include <string.h>

enum {
    SAMPLE_FRACTION = 16, /* bits of a logarithm's fraction */
    SAMPLE_LN2 = 45426,   /* of 1 << 16 */
    SAMPLE_MEAN_BITS = 48,
};

_Atomic uint64_t sample_mean[SAMPLE_LINES];
/* How often a line began: then all distances are drawn anew. */
static _Atomic uint32_t sample_begun;
static _Atomic uint64_t sample_key; /* what tells a child's numbers from its parent's */

uint64_t sample_debt_step = 64;

/* A thread's. */
static __thread struct {
    uint64_t at;      /* bytes so far */
    uint64_t nearest; /* the least of the points that follow; 0: they are to be looked at */
    uint64_t
        point[SAMPLE_LINES]; /* the next ones, in bytes as `at`; none above it: not drawn yet */
    uint64_t drawn;          /* the profile's mean in force at its point */
    uint64_t state;          /* what its random numbers come from */
    uint64_t objects;        /* so far */
    uint64_t paid, debt;     /* of them, those that have paid; bytes that are not paid for */
    uint32_t begun;          /* sample_begun then */
    unsigned shift;          /* one of 1 << shift points counts */
    unsigned lines;          /* of the sample that context.h tells of … */
    float weight;            /* … and for how many objects it stands */
    bool counts;             /* the profile's next point does */
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
    uint64_t z;

    if (sample_own.state == 0)
        sample_own.state = ((uint64_t)random_below(UINT32_MAX) << 32 | random_below(UINT32_MAX)) ^
                           atomic_load_explicit(&sample_key, memory_order_relaxed);
    z = sample_own.state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

/* This thread's mean, of the profile. */
static uint64_t sample_distant(uint64_t mean)
{
    return mean >> (SAMPLE_MEAN_BITS - SAMPLE_SHIFT_MOST) ? mean : mean << sample_own.shift;
}

/* The point that follows `from`. */
static void sample_next(enum sample_line line, uint64_t mean, uint64_t from)
{
    if (line == SAMPLE_PROFILE)
        sample_own.counts = false;
    sample_own.point[line] = from + sample_distance(mean, sample_random());
}

/* Objects since the last time pay. */
static void sample_earn(uint64_t mean)
{
    uint64_t earned = (sample_own.objects - sample_own.paid) * SAMPLE_PAYS, shift;

    sample_own.paid = sample_own.objects;
    sample_own.debt -= sample_own.debt < earned ? sample_own.debt : earned;
    shift = sample_own.debt / mean / sample_debt_step;
    sample_own.shift = shift < SAMPLE_SHIFT_MOST ? (unsigned)shift : SAMPLE_SHIFT_MOST;
}

/*
 * Whether the line's next point is at `end` or before.  While this thread has debts, all but one of
 * 1 << shift of the profile's points are passed over: those that count are a Poisson process with a mean of `drawn`,
 * whatever the debts come from, since nothing of the objects that follow has a say in it.
 */
static bool sample_within(enum sample_line line, uint64_t mean, uint64_t end)
{
    while (sample_own.point[line] <= end) {
        if (line != SAMPLE_PROFILE || sample_own.counts)
            return true;
        if (sample_own.shift > 0)
            sample_earn(mean);
        sample_own.drawn = sample_distant(mean);
        sample_own.counts =
            sample_own.drawn == mean || sample_random() >> (64 - sample_own.shift) == 0;
        if (!sample_own.counts)
            sample_next(line, mean, sample_own.point[line]);
    }
    return false;
}

/* A token: bit 15 for the profile, bit 14 for the guard, and the weight, in 6 bits of its exponent and 8 of its
 * mantissa. */
enum {
    SAMPLE_TOKEN_PROFILE = 1 << 15,
    SAMPLE_TOKEN_GUARD = 1 << 14,
    SAMPLE_TOKEN_WEIGHT = (1 << 14) - 1,
    SAMPLE_TOKEN_ONE = 127 << 8, /* of a float's upper bits: 1 */
};

static uint32_t sample_token(unsigned lines, float weight)
{
    uint32_t bits, code = 0;

    memcpy(&bits, &weight, sizeof(bits));
    if (lines & 1u << SAMPLE_PROFILE) {
        code = (bits + (1 << 14)) >> 15; /* rounded; weights are 1 or more */
        code = code > SAMPLE_TOKEN_ONE ? code - SAMPLE_TOKEN_ONE : 0;
        code = code < SAMPLE_TOKEN_WEIGHT ? code : SAMPLE_TOKEN_WEIGHT;
        code |= SAMPLE_TOKEN_PROFILE;
    }
    return code | (lines & 1u << SAMPLE_GUARD ? SAMPLE_TOKEN_GUARD : 0);
}

static float sample_token_weight(uint32_t token)
{
    uint32_t bits = ((token & SAMPLE_TOKEN_WEIGHT) + SAMPLE_TOKEN_ONE) << 15;
    float weight;

    memcpy(&weight, &bits, sizeof(weight));
    return weight;
}

/* Whether the lines are those for which this thread's points were drawn. */
static inline bool sample_same(void)
{
    /* Acquire: the mean, which is no older. */
    return sample_own.begun == atomic_load_explicit(&sample_begun, memory_order_acquire);
}

static void sample_renew(void)
{
    sample_own.begun = atomic_load_explicit(&sample_begun, memory_order_acquire);
    sample_own.at = sample_own.nearest = sample_own.debt = 0;
    memset(sample_own.point, 0, sizeof(sample_own.point));
}

/* The line's mean, and its next point drawn; 0: there are no samples of it. */
static uint64_t sample_ready(enum sample_line line)
{
    uint64_t mean = sample_mean_of(line);

    if (mean != 0 && sample_own.point[line] <= sample_own.at)
        sample_next(line, mean, sample_own.at);
    return mean;
}

/* So far nothing needs to be looked at. */
static void sample_rest(void)
{
    uint64_t nearest = UINT64_MAX;

    for (enum sample_line line = 0; line < SAMPLE_LINES; line++)
        if (sample_mean_of(line) != 0 && sample_own.point[line] < nearest)
            nearest = sample_own.point[line];
    sample_own.nearest = nearest;
}

/* Of n objects that this thread takes of the cache, those that are samples of a line. */
static void sample_own_objects(enum sample_line line, const struct stook_cache *cache,
                               uint64_t size, uint64_t n)
{
    struct context *context = context_self();
    uint64_t mean = sample_ready(line), from = sample_own.at, end = from + n * size;

    while (mean != 0 && sample_within(line, mean, end)) {
        from += ((sample_own.point[line] - from - 1) / size + 1) * size; /* behind the sample */
        if (context->sampled != cache || context->token != 0) {
            sample_own.lines = 0;
            sample_own.weight = 0;
        }
        context->sampled = cache;
        context->token = 0;
        sample_own.lines |= 1u << line;
        if (line == SAMPLE_PROFILE) /* several of an array stand for all that each stands for */
            sample_own.weight += sample_weight(size, sample_own.drawn);
        sample_next(line, mean, from);
    }
}

/* The object that ends there has a point, at least. */
static uint32_t sample_found(uint64_t size, uint64_t end)
{
    unsigned lines = 0;
    float weight = 0;

    for (enum sample_line line = 0; line < SAMPLE_LINES; line++) {
        uint64_t mean = sample_ready(line);
        if (mean == 0 || !sample_within(line, mean, end))
            continue;
        lines |= 1u << line;
        if (line == SAMPLE_PROFILE)
            weight = sample_weight(size, sample_own.drawn);
        sample_next(line, mean, end);
    }
    return sample_token(lines, weight);
}

static __attribute__((noinline)) uint32_t sample_look(const struct stook_cache *cache, uint32_t own,
                                                      uint32_t more, uint32_t *token)
{
    uint64_t size = cache->layout.stride, may = more;

    if (!sample_same())
        sample_renew();
    for (enum sample_line line = 0; line < SAMPLE_LINES && own > 0; line++)
        sample_own_objects(line, cache, size, own);
    sample_own.at += own * size;
    for (enum sample_line line = 0; line < SAMPLE_LINES; line++) {
        uint64_t mean = sample_ready(line);
        if (mean != 0 && sample_within(line, mean, sample_own.at + may * size)) {
            uint64_t before = (sample_own.point[line] - sample_own.at - 1) / size;
            if (before < may) /* objects that end before the point */
                may = before;
        }
    }
    sample_own.at += may * size;
    sample_own.objects += own + may;
    if (may < more) {
        *token = sample_found(size, sample_own.at + size);
        sample_own.at += size;
        sample_own.objects++;
    }
    sample_rest();
    return (uint32_t)may;
}

/* Called with each sheaf, so most calls end with a comparison. */
uint32_t sample_hand_over(const struct stook_cache *cache, uint32_t own, uint32_t more,
                          uint32_t *token)
{
    uint64_t end = sample_own.at + ((uint64_t)own + more) * cache->layout.stride;

    if (cache->flags & (CACHE_INTERNAL | CACHE_SHADOW))
        return more;
    if (__builtin_expect(end < sample_own.nearest && sample_same(), 1)) {
        sample_own.at = end;
        sample_own.objects += own + more;
        return more;
    }
    return sample_look(cache, own, more, token);
}

struct sample sample_take(const struct stook_cache *cache)
{
    struct context *context = context_self();
    struct sample sample = {0};

    if (context->sampled != cache)
        return sample;
    if (context->token != 0) {
        uint32_t token = context->token;
        sample.again = token > SLOT_TOKEN_BELOW;
        token = sample.again ? token >> SLOT_TOKEN_BITS : token;
        sample.lines = (token & SAMPLE_TOKEN_PROFILE ? 1u << SAMPLE_PROFILE : 0) |
                       (token & SAMPLE_TOKEN_GUARD ? 1u << SAMPLE_GUARD : 0);
        sample.weight = sample_token_weight(token);
    } else {
        sample.lines = sample_own.lines;
        sample.weight = sample_own.weight;
    }
    context->sampled = NULL;
    context->token = 0;
    return sample;
}

bool sample_large(size_t size, float *weight)
{
    uint64_t mean;
    bool found;

    if (!sample_same())
        sample_renew();
    mean = sample_ready(SAMPLE_PROFILE);
    if (mean == 0)
        return false;
    sample_own.objects += 1 + size / SAMPLE_LARGE;
    found = sample_within(SAMPLE_PROFILE, mean, sample_own.at + size);
    if (found) {
        *weight = sample_weight(size, sample_own.drawn);
        sample_next(SAMPLE_PROFILE, mean, sample_own.at);
    } else { /* the guard has no large objects, so its point stays where it is */
        sample_own.point[SAMPLE_PROFILE] -= size;
    }
    sample_rest();
    return found;
}

void sample_paid(void)
{
    uint64_t mean = sample_mean_of(SAMPLE_PROFILE);

    if (mean == 0)
        return;
    sample_own.debt += mean;
    sample_earn(mean);
}

uint64_t sample_objects(void)
{
    return sample_own.objects;
}

uint32_t sample_again(float weight, uint64_t size)
{
    float now = sample_weight(size, sample_distant(sample_mean_of(SAMPLE_PROFILE)));

    if (weight < now) {
        if ((float)(sample_random() >> 40) >= weight / now * (float)(1 << 24))
            return 0;
        weight = now;
    }
    return sample_token(1u << SAMPLE_PROFILE, weight);
}

void sample_begin(enum sample_line line, uint64_t mean)
{
    atomic_store_explicit(&sample_mean[line], mean, memory_order_relaxed);
    atomic_fetch_add_explicit(&sample_begun, 1, memory_order_release);
    /* Release: the mean. */
    __atomic_store_n(&hooks_set.sample, sample_hand_over, __ATOMIC_RELEASE);
}

void sample_child(void)
{
    if (atomic_load_explicit(&sample_mean[SAMPLE_GUARD], memory_order_relaxed) == 0 &&
        atomic_load_explicit(&sample_mean[SAMPLE_PROFILE], memory_order_relaxed) == 0)
        return;
    atomic_fetch_add_explicit(&sample_key, sites_thread() * 0x9e3779b97f4a7c15u,
                              memory_order_relaxed);
    sample_own.state = 0;
    sample_renew();
}
