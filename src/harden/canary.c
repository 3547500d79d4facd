/* SPDX-License-Identifier: MIT */
/* canary.c - computes, writes and checks the secret bytes behind an object (canary.h). */
#include "harden/canary.h"

#include "base/placed.h"
#include "percpu/random.h"
#include "slab/wrong.h"

#include <string.h>

static uint64_t canary_secret; /* constant after the start */

FIRST_TEXT void canary_start(void)
{
    for (unsigned i = 0; i < sizeof(canary_secret); i++)
        canary_secret = canary_secret << 8 | random_below(256);
}

/* The bytes at addresses that are multiples of 8.  None is 0: so the end of a string is seen. */
static uint64_t canary_of(const void *object)
{
    return (canary_secret ^ (uintptr_t)object) | 0x0101010101010101u;
}

static unsigned char canary_byte(uint64_t own, const unsigned char *at)
{
    return ((const unsigned char *)&own)[(uintptr_t)at % sizeof(own)];
}

static unsigned char *canary_from(const void *object, size_t used)
{
    return (unsigned char *)(uintptr_t)object + used;
}

void canary_set(const struct stook_cache *cache, void *object, size_t used)
{
    const uint64_t own = canary_of(object);
    unsigned char *at = canary_from(object, used), *end = canary_from(object, canary_end(cache));

    for (; at < end && (uintptr_t)at % sizeof(own) != 0; at++)
        *at = canary_byte(own, at);
    for (; end - at >= (ptrdiff_t)sizeof(own); at += sizeof(own))
        memcpy(at, &own, sizeof(own));
    for (; at < end; at++)
        *at = canary_byte(own, at);
}

/* The first byte that differs; `end`: none. */
static unsigned char *canary_first(uint64_t own, unsigned char *at, unsigned char *end)
{
    uint64_t word;

    for (; at < end && (uintptr_t)at % sizeof(own) != 0; at++)
        if (*at != canary_byte(own, at))
            return at;
    for (; end - at >= (ptrdiff_t)sizeof(own); at += sizeof(own)) {
        memcpy(&word, at, sizeof(word));
        if (word != own)
            break;
    }
    while (at < end && *at == canary_byte(own, at))
        at++;
    return at;
}

bool canary_check(const struct stook_cache *cache, const void *object, size_t used)
{
    struct debug_finding finding = {.what = DEBUG_RIGHT_ZONE,
                                    .done = DEBUG_QUARANTINED,
                                    .cache = cache,
                                    .object = object,
                                    .requested = used};
    const uint64_t own = canary_of(object);
    unsigned char *end = canary_from(object, canary_end(cache)), *first;

    first = canary_first(own, canary_from(object, used), end);
    if (__builtin_expect(first == end, 1))
        return true;
    while (end[-1] == canary_byte(own, end - 1))
        end--;
    finding.at = first;
    finding.expected = canary_byte(own, first);
    finding.changed = (size_t)(end - first);
    finding.slab = slab_find(cache, object, &finding.index);
    wrong_found(&finding);
    return false;
}
