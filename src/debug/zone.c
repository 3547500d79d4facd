/* SPDX-License-Identifier: MIT */
/* zone.c - finds the first changed byte of a zone or of poison, and writes poison. */
#include "debug/zone.h"

#include <string.h>

#define ZONE_WORD(byte) ((byte) * (uint64_t)0x0101010101010101)

/* The first byte that differs; `end`: none.  Other threads may write to what a validation reads. */
__attribute__((no_sanitize("thread"))) static uint8_t *zone_first(uint8_t *from, uint8_t *end,
                                                                  uint8_t expected)
{
    for (; from < end && (uintptr_t)from % sizeof(uint64_t) != 0; from++)
        if (*from != expected)
            return from;
    for (; end - from >= (ptrdiff_t)sizeof(uint64_t); from += sizeof(uint64_t))
        if (*(const uint64_t *)(const void *)from != ZONE_WORD(expected))
            break;
    while (from < end && *from == expected)
        from++;
    return from;
}

__attribute__((no_sanitize("thread"))) static uint8_t *zone_last(uint8_t *from, uint8_t *end,
                                                                 uint8_t expected)
{
    while (end > from && end[-1] == expected)
        end--;
    return end;
}

bool zone_differs(uint8_t *from, size_t n, uint8_t expected, struct zone_change *change)
{
    uint8_t *end = from + n, *first = zone_first(from, end, expected);

    if (first == end)
        return false;
    *change = (struct zone_change){first, 0, expected};
    change->bytes = (size_t)(zone_last(first, end, expected) - first);
    /* Another thread may have put the last one right meanwhile. */
    if (change->bytes == 0)
        change->bytes = 1;
    return true;
}

bool zone_poison_differs(uint8_t *object, size_t n, struct zone_change *change)
{
    struct zone_change last;

    if (!zone_differs(object, n - 1, POISON_FREE, change))
        return zone_differs(object + n - 1, 1, POISON_END, change);
    if (zone_differs(object + n - 1, 1, POISON_END, &last))
        change->bytes = (size_t)(last.at + 1 - change->at);
    return true;
}

void zone_poison(uint8_t *object, size_t n)
{
    memset(object, POISON_FREE, n - 1);
    object[n - 1] = POISON_END;
}
