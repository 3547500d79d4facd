/* SPDX-License-Identifier: MIT */
/* zone.c - writes bytes that only the library writes, and finds those that were changed (zone.h). */
#include "debug/zone.h"

#include <string.h>

static uint8_t zone_byte(uint64_t word, const uint8_t *at)
{
    return ((const uint8_t *)&word)[(uintptr_t)at % sizeof(word)];
}

/* Other threads may write to what a validation reads. */
__attribute__((no_sanitize("thread"))) bool zone_differs(const void *from, size_t n, uint64_t word,
                                                         struct zone_change *change)
{
    uint8_t *at = (uint8_t *)(uintptr_t)from, *end = at + n;

    for (; at < end && (uintptr_t)at % sizeof(word) != 0 && *at == zone_byte(word, at); at++)
        ;
    while (end - at >= (ptrdiff_t)sizeof(word) && (uintptr_t)at % sizeof(word) == 0 &&
           *(const uint64_t *)(const void *)at == word)
        at += sizeof(word);
    for (; at < end && *at == zone_byte(word, at); at++)
        ;
    if (__builtin_expect(at == end, 1))
        return false;
    while (end > at + 1 && end[-1] == zone_byte(word, end - 1))
        end--;
    *change = (struct zone_change){at, (size_t)(end - at), zone_byte(word, at)};
    return true;
}

void zone_fill(void *from, size_t n, uint64_t word)
{
    uint8_t *at = from, *end = at + n;

    for (; at < end && (uintptr_t)at % sizeof(word) != 0; at++)
        *at = zone_byte(word, at);
    for (; end - at >= (ptrdiff_t)sizeof(word); at += sizeof(word))
        memcpy(at, &word, sizeof(word));
    for (; at < end; at++)
        *at = zone_byte(word, at);
}
