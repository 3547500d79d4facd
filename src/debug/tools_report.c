/* SPDX-License-Identifier: MIT */
/* tools_report.c - a report of the object behind each of AddressSanitizer's reports, which know the address alone. */
#include "debug/report.h"
#include "base/placed.h"
#include "debug/tools.h"
#include "debug/track.h"
#include "debug/zone.h"

#include <stdio.h>

#define TOOLS_WEAK extern __attribute__((weak, visibility("default")))
TOOLS_WEAK void __asan_set_error_report_callback(void (*fn)(const char *report));
TOOLS_WEAK void *__asan_get_report_address(void);

static void tools_describe(const char *report)
{
    const char *address = __asan_get_report_address ? __asan_get_report_address() : NULL;
    const struct stook_cache *cache = address ? slab_user_cache(address) : NULL;
    struct debug_finding finding = {
        .what = DEBUG_GUARD, .done = DEBUG_PASSED, .cache = cache, .at = address};
    const char *object, *place = "inside of";
    char text[160];
    size_t size, distance;

    (void)report;
    if (!cache)
        return;
    finding.slab = slab_at(address, *pagemap_at(address));
    /* The bytes before an object's start are its left zone. */
    finding.index = layout_index(
        &cache->layout, (uint32_t)(address + zone_left(cache) - slab_first(cache, finding.slab)));
    if (finding.index >=
        slab_objects(cache, atomic_load_explicit(&finding.slab->state, memory_order_relaxed)))
        return;
    object = slab_object(cache, finding.slab, finding.index);
    size = track_head(cache, finding.slab, finding.index)->requested;
    if (size == 0)
        size = cache->object_size;
    distance = (size_t)(address - object);
    if (address < object) {
        distance = (size_t)(object - address);
        place = "before";
    } else if (distance >= size) {
        distance -= size;
        place = "after";
    }
    (void)snprintf(text, sizeof(text), "%p is %zu bytes %s object %p of %zu bytes",
                   (const void *)address, distance, place, (const void *)object, size);
    finding.text = text;
    finding.object = object;
    finding.requested = size;
    (void)debug_report(&finding);
}

FIRST_TEXT void tools_report_start(void)
{
    if ((tools_watch & TOOLS_ASAN) && __asan_set_error_report_callback)
        __asan_set_error_report_callback(tools_describe);
}
