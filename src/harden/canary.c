/* SPDX-License-Identifier: MIT */
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

static char *canary_at(const struct stook_cache *cache, const void *object)
{
    return (char *)(uintptr_t)object + cache->layout.room;
}

/* The first byte is not 0, so that the end of a string behind the object's is seen. */
static uint64_t canary_of(const void *object)
{
    return (canary_secret ^ (uintptr_t)object) | 1;
}

void canary_set(const struct stook_cache *cache, void *object)
{
    const uint64_t own = canary_of(object);

    if (cache_canary(cache->flags, cache->object_size))
        memcpy(canary_at(cache, object), &own, sizeof(own));
}

static __attribute__((noinline, cold)) void canary_report(const struct stook_cache *cache,
                                                          const void *object, uint64_t own)
{
    const unsigned char *at = (const unsigned char *)canary_at(cache, object), *expected;
    struct debug_finding finding = {.what = DEBUG_RIGHT_ZONE,
                                    .done = DEBUG_QUARANTINED,
                                    .cache = cache,
                                    .object = object,
                                    .requested = cache->layout.room};
    unsigned first = 0, end = sizeof(own);

    expected = (const unsigned char *)&own;
    while (at[first] == expected[first])
        first++;
    while (at[end - 1] == expected[end - 1])
        end--;
    finding.at = at + first;
    finding.expected = expected[first];
    finding.changed = end - first;
    finding.slab = slab_find(cache, object, &finding.index);
    wrong_found(&finding);
}

bool canary_check(const struct stook_cache *cache, const void *object)
{
    const uint64_t own = canary_of(object);
    uint64_t had;

    if (!cache_canary(cache->flags, cache->object_size))
        return true;
    memcpy(&had, canary_at(cache, object), sizeof(had));
    if (__builtin_expect(had == own, 1))
        return true;
    canary_report(cache, object, own);
    return false;
}
