/* SPDX-License-Identifier: MIT */
/* filling.c - fills the bytes of a freed object and checks them (filling.h). */
#include "harden/filling.h"

#include "harden/canary.h"
#include "slab/wrong.h"

#include <string.h>

static uint8_t filling_byte(const struct stook_cache *cache)
{
    return cache->flags & STOOK_CACHE_ZERO_ON_FREE ? 0 : FILLING_BYTE;
}

void filling_set(const struct stook_cache *cache, void *object)
{
    memset(object, filling_byte(cache), canary_end(cache));
}

static __attribute__((noinline, cold)) void filling_report(const struct stook_cache *cache,
                                                           const unsigned char *object,
                                                           size_t first, enum debug_done done)
{
    struct debug_finding finding = {.what = DEBUG_POISON,
                                    .done = done,
                                    .cache = cache,
                                    .object = object,
                                    .at = object + first,
                                    .expected = filling_byte(cache)};
    size_t end = canary_end(cache);

    while (object[end - 1] == finding.expected)
        end--;
    finding.changed = end - first;
    finding.slab = slab_find(cache, object, &finding.index);
    wrong_found(&finding);
}

bool filling_check(const struct stook_cache *cache, const void *object, enum debug_done done)
{
    const unsigned char *byte = object;
    const uint64_t eight = filling_byte(cache) * (uint64_t)0x0101010101010101u;
    size_t bytes = canary_end(cache), at = 0;
    uint64_t word;

    for (; at + sizeof(word) <= bytes; at += sizeof(word)) {
        memcpy(&word, byte + at, sizeof(word));
        if (__builtin_expect(word != eight, 0))
            break;
    }
    while (at < bytes && byte[at] == (unsigned char)eight)
        at++;
    if (__builtin_expect(at == bytes, 1))
        return true;
    filling_report(cache, byte, at, done);
    return false;
}
