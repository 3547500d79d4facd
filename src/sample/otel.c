/* SPDX-License-Identifier: MIT */
#include "sample/otel.h"

#include "base/probe.h"

#if defined(__has_attribute) && __has_attribute(noipa)
#define OTEL_KEPT __attribute__((noinline, noipa))
#else
#define OTEL_KEPT __attribute__((noinline))
#endif

/* Nothing but the probe: it must not be inlined, nor must its arguments be dropped. */
OTEL_KEPT void otel_alloc(const void *object, size_t size, uint64_t weighted_bytes)
{
    PROBE3_OF(otel_memory, alloc, object, size, weighted_bytes);
}

OTEL_KEPT void otel_free(const void *object)
{
    PROBE1_OF(otel_memory, free, object);
}

enum { OTEL_FRACTION = 32, OTEL_CERTAIN = 32 /* means: e to the power of less is below a unit */ };
static const uint64_t otel_one = (uint64_t)1 << OTEL_FRACTION;

static uint64_t otel_mul(uint64_t a, uint64_t b)
{
    return (uint64_t)((unsigned __int128)a * b >> OTEL_FRACTION);
}

static uint64_t otel_div(uint64_t a, uint64_t b)
{
    return (uint64_t)(((unsigned __int128)a << OTEL_FRACTION) / b);
}

/*
 * f(x) = x / (1 - exp(-x)), of x and to units of 2^-32: up to 1 by its series 1 + x/2 + x^2/12 - x^4/720 + x^6/30240,
 * then by f(2x) = 2 f(x) / (1 + exp(-x)), where exp(-x) is 1 - x / f(x).
 */
static uint64_t otel_f(uint64_t x)
{
    unsigned doublings = 0;
    uint64_t square, f;

    while (x > otel_one) {
        x = (x + 1) / 2;
        doublings++;
    }
    square = otel_mul(x, x);
    f = otel_one + x / 2 + square / 12 - otel_mul(square, square) / 720 +
        otel_mul(otel_mul(square, square), square) / 30240;
    for (; doublings > 0; doublings--, x *= 2)
        f = otel_div(2 * f, 2 * otel_one - otel_div(x, f));
    return f;
}

uint64_t otel_weight(size_t size, uint64_t counted, uint64_t mean)
{
    unsigned __int128 x;

    if (mean == 0 || counted == 0 || counted / mean >= OTEL_CERTAIN)
        return size;
    /* size / p = size / counted * mean * f(counted / mean) */
    x = ((unsigned __int128)counted << OTEL_FRACTION) / mean;
    return (uint64_t)(((unsigned __int128)mean * otel_f((uint64_t)x) >> OTEL_FRACTION) * size /
                      counted);
}
