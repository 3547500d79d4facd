/* SPDX-License-Identifier: MIT */
/* Factors numbers by Pollard's method, with numbers of any length whose every result is an object of its own. */
#include "own.h"

struct number {
    uint32_t length; /* of the digits; the last is not 0 */
    uint32_t digit[];
};

static struct number *number_make(uint32_t length)
{
    struct number *number = own_alloc(sizeof(*number) + length * sizeof(number->digit[0]));

    number->length = length;
    memset(number->digit, 0, length * sizeof(number->digit[0]));
    return number;
}

static struct number *number_copy(const struct number *number)
{
    struct number *copy = number_make(number->length);

    memcpy(copy->digit, number->digit, number->length * sizeof(number->digit[0]));
    return copy;
}

static struct number *number_trim(struct number *number)
{
    while (number->length > 0 && number->digit[number->length - 1] == 0)
        number->length--;
    return number;
}

static struct number *number_of(uint64_t value)
{
    struct number *number = number_make(2);

    number->digit[0] = (uint32_t)value;
    number->digit[1] = (uint32_t)(value >> 32);
    return number_trim(number);
}

static int number_compare(const struct number *a, const struct number *b)
{
    if (a->length != b->length)
        return a->length < b->length ? -1 : 1;
    for (uint32_t i = a->length; i-- > 0;)
        if (a->digit[i] != b->digit[i])
            return a->digit[i] < b->digit[i] ? -1 : 1;
    return 0;
}

/* a + b */
static struct number *number_add(const struct number *a, const struct number *b)
{
    uint32_t most = a->length > b->length ? a->length : b->length;
    struct number *sum = number_make(most + 1);
    uint64_t carry = 0;

    for (uint32_t i = 0; i <= most; i++) {
        carry += (i < a->length ? a->digit[i] : 0) + (uint64_t)(i < b->length ? b->digit[i] : 0);
        sum->digit[i] = (uint32_t)carry;
        carry >>= 32;
    }
    return number_trim(sum);
}

/* a - b, a >= b */
static struct number *number_subtract(const struct number *a, const struct number *b)
{
    struct number *rest = number_make(a->length);
    int64_t borrow = 0;

    for (uint32_t i = 0; i < a->length; i++) {
        borrow += (int64_t)a->digit[i] - (i < b->length ? b->digit[i] : 0);
        rest->digit[i] = (uint32_t)borrow;
        borrow >>= 32;
    }
    return number_trim(rest);
}

static struct number *number_multiply(const struct number *a, const struct number *b)
{
    struct number *product = number_make(a->length + b->length);

    for (uint32_t i = 0; i < a->length; i++) {
        uint64_t carry = 0;
        for (uint32_t j = 0; j < b->length || carry; j++) {
            carry +=
                product->digit[i + j] + (uint64_t)a->digit[i] * (j < b->length ? b->digit[j] : 0);
            product->digit[i + j] = (uint32_t)carry;
            carry >>= 32;
        }
    }
    return number_trim(product);
}

/* a modulo b, bit by bit: each shifted divisor and each difference is an object. */
static struct number *number_modulo(const struct number *a, const struct number *b)
{
    struct number *rest = number_of(0);

    for (uint32_t i = a->length; i-- > 0;) {
        for (int bit = 31; bit >= 0; bit--) {
            struct number *twice = number_add(rest, rest);
            if (twice->length == 0) {
                free(twice);
                twice = number_of(a->digit[i] >> bit & 1);
            } else {
                twice->digit[0] |= a->digit[i] >> bit & 1;
            }
            free(rest);
            rest = twice;
            if (number_compare(rest, b) >= 0) {
                struct number *less = number_subtract(rest, b);
                free(rest);
                rest = less;
            }
        }
    }
    return rest;
}

static struct number *number_gcd(const struct number *a, const struct number *b)
{
    struct number *x = number_copy(a), *y = number_copy(b);

    while (y->length > 0) {
        struct number *rest = number_modulo(x, y);
        free(x);
        x = y;
        y = rest;
    }
    free(y);
    return x;
}

/* x * x + 1 modulo n */
static struct number *walk(struct number *x, const struct number *one, const struct number *n)
{
    struct number *square = number_multiply(x, x), *more = number_add(square, one),
                  *next = number_modulo(more, n);

    free(square);
    free(more);
    free(x);
    return next;
}

static uint64_t factor(uint64_t p, uint64_t q)
{
    struct number *a = number_of(p), *b = number_of(q), *n = number_multiply(a, b),
                  *one = number_of(1);
    struct number *slow = number_of(2), *fast = number_of(2), *found = number_of(1);
    uint64_t value;

    while (found->length == 1 && found->digit[0] == 1) {
        struct number *apart;
        slow = walk(slow, one, n);
        fast = walk(walk(fast, one, n), one, n);
        apart = number_compare(slow, fast) < 0 ? number_subtract(fast, slow)
                                               : number_subtract(slow, fast);
        free(found);
        found = number_gcd(apart, n);
        free(apart);
    }
    value = found->digit[0] + ((uint64_t)(found->length > 1 ? found->digit[1] : 0) << 32);
    free(a), free(b), free(n), free(one), free(slow), free(fast), free(found);
    return value;
}

uint64_t own_factor(unsigned scale)
{
    static const uint64_t prime[] = {10007, 20011, 30011, 40009, 50021, 60013, 70001, 80021};
    uint64_t sum = 0;

    for (unsigned n = 0; n < scale * 5 / 2 + 1; n++)
        sum += factor(prime[n % 8], prime[(n + 3) % 8] * (uint64_t)1000003);
    return sum;
}
