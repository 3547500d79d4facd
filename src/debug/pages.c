/* SPDX-License-Identifier: MIT */
/*
 * pages.c - the zone and the mark behind a large object, and the ring of freed large objects that AddressSanitizer or
 * Valgrind watches.
 */
#include "debug/pages.h"

#include "base/placed.h"
#include "base/settings.h"
#include "debug/flags.h"
#include "debug/report.h"
#include "debug/zone.h"
#include "large/large.h"
#include "os/os.h"

#include <stdatomic.h>
#include <string.h>

enum {
    PAGES_ZONE = 4096
}; /* bytes of the zone at most: spans have up to a block behind the object */

/* The last bytes of the pages. */
struct pages_mark {
    uint64_t size, check; /* check: the size, xor what depends on the place */
};

bool pages_zoned;
static uint64_t pages_secret = 0xccccccccccccccccu; /* constant after the start */

FIRST_TEXT void pages_start(void)
{
    bool hardened = setting_number(SETTING_HARDEN) & SETTING_HARDEN_QUARANTINE;

    pages_zoned = debug_flags_large || hardened;
    if (hardened)
        pages_secret = os_random();
}

static uint64_t pages_key(const void *object)
{
    return (uintptr_t)object * 0x9e3779b97f4a7c15u ^ pages_secret;
}

static struct pages_mark *pages_at(const void *object, size_t large)
{
    return (struct pages_mark *)(void *)((char *)(uintptr_t)object + large) - 1;
}

/* False: it was overwritten. */
static bool pages_valid(const void *object, size_t large, struct pages_mark *mark)
{
    memcpy(mark, pages_at(object, large), sizeof(*mark));
    return (mark->size ^ mark->check) == pages_key(object) && mark->size <= large - sizeof(*mark);
}

static size_t pages_zone(size_t large, size_t size)
{
    size_t zone = large - sizeof(struct pages_mark) - size;

    return zone < PAGES_ZONE ? zone : PAGES_ZONE;
}

void pages_mark(void *object, size_t had, size_t size)
{
    size_t large = large_size(object);
    struct pages_mark mark;

    tools_open((char *)object + had, large - had);

    size += size == 0; /* 0 is the size of no object */
    mark = (struct pages_mark){size, size ^ pages_key(object)};
    if (large < sizeof(mark) || size > large - sizeof(mark))
        return;
    memset((char *)object + size, ZONE_LIVE, pages_zone(large, size));
    memcpy(pages_at(object, large), &mark, sizeof(mark));
    tools_pages(object, had, size, large);
}

size_t pages_marked(const void *object)
{
    size_t large = large_size(object);
    struct pages_mark mark;
    bool valid;

    if (pages_holds(object))
        return 0;
    tools_quiet(true);
    valid = pages_valid(object, large, &mark);
    tools_quiet(false);
    return valid ? mark.size : large;
}

void pages_validate(void *object)
{
    struct debug_finding finding = {
        .what = DEBUG_RIGHT_ZONE, .done = DEBUG_RESTORED, .object = object};
    size_t large = large_size(object);
    struct zone_change change;
    struct pages_mark mark;

    if (large == 0)
        return;
    finding.size = large;
    if (!pages_valid(object, large, &mark)) {
        finding.done = DEBUG_ACCEPTED;
        finding.at = pages_at(object, large);
        finding.changed = sizeof(mark);
        finding.requested = large - sizeof(mark);
        finding.expected = ZONE_LIVE;
    } else if (zone_differs((uint8_t *)object + mark.size, pages_zone(large, mark.size),
                            ZONE_WORD(ZONE_LIVE), &change)) {
        finding.at = change.at;
        finding.changed = change.bytes;
        finding.expected = change.expected;
        finding.requested = mark.size;
    } else {
        return;
    }
    (void)debug_report(&finding);
    if (finding.done == DEBUG_RESTORED)
        pages_mark(object, mark.size, mark.size);
}

/* ---- held back ------------------------------------------------------------------------------ */

static _Atomic(void *) pages_held[PAGES_HELD];
static atomic_uint pages_turn;

bool pages_holds_slow(const void *object)
{
    for (unsigned i = 0; i < PAGES_HELD; i++)
        if (object && atomic_load_explicit(&pages_held[i], memory_order_relaxed) == object)
            return true;
    return false;
}

void *pages_hold_slow(void *object)
{
    size_t large = pages_zoned ? large_size(object) : 0;
    void *leaves = object;

    if (large == 0)
        return object;
    tools_pages_gone(object, large);
    if (large <= PAGES_HELD_MAX)
        leaves =
            atomic_exchange(&pages_held[atomic_fetch_add(&pages_turn, 1) % PAGES_HELD], object);
    if (leaves)
        tools_open(leaves, large_size(leaves));
    return leaves;
}
