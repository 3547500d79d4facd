/* SPDX-License-Identifier: MIT */
/* canary.c - writes and checks the secret bytes behind a live object and the bytes of a freed one (canary.h). */
#include "harden/canary.h"

#include "base/placed.h"
#include "debug/zone.h"
#include "percpu/random.h"
#include "slab/wrong.h"

static uint64_t canary_secret; /* constant after the start */

FIRST_TEXT void canary_start(void)
{
    canary_secret = random_word();
}

/* The distance from the object's start to the end of its canary. */
static size_t canary_end(const struct stook_cache *cache)
{
    return cache->layout.room + cache_canary(cache->flags, cache->object_size);
}

/* No byte of it is 0: so the end of a string is seen. */
static uint64_t canary_of(const void *object)
{
    return (canary_secret ^ (uintptr_t)object) | 0x0101010101010101u;
}

static uint64_t canary_filling(const struct stook_cache *cache)
{
    return cache->flags & STOOK_CACHE_ZERO_ON_FREE ? 0 : ZONE_WORD(CANARY_FILLING);
}

/* Compares the bytes from `used` on with `word`; a difference is reported. */
static bool canary_compare(const struct debug_finding *kind, size_t used, uint64_t word)
{
    struct debug_finding finding = *kind;
    struct zone_change change;

    if (__builtin_expect(!zone_differs((const char *)finding.object + used,
                                       canary_end(finding.cache) - used, word, &change),
                         1))
        return true;
    finding.at = change.at;
    finding.changed = change.bytes;
    finding.expected = change.expected;
    finding.slab = slab_find(finding.cache, finding.object, &finding.index);
    wrong_found(&finding);
    return false;
}

void canary_set(const struct stook_cache *cache, void *object, size_t used)
{
    zone_fill((char *)object + used, canary_end(cache) - used, canary_of(object));
}

bool canary_check(const struct stook_cache *cache, const void *object, size_t used)
{
    const struct debug_finding finding = {.what = DEBUG_RIGHT_ZONE,
                                          .done = DEBUG_QUARANTINED,
                                          .cache = cache,
                                          .object = object,
                                          .requested = used};

    return canary_compare(&finding, used, canary_of(object));
}

void canary_fill(const struct stook_cache *cache, void *object)
{
    zone_fill(object, canary_end(cache), canary_filling(cache));
}

bool canary_check_filling(const struct stook_cache *cache, const void *object, enum debug_done done)
{
    const struct debug_finding finding = {
        .what = DEBUG_POISON, .done = done, .cache = cache, .object = object};

    return canary_compare(&finding, 0, canary_filling(cache));
}
