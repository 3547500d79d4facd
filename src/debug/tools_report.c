/* SPDX-License-Identifier: MIT */
/*
 * tools_report.c - lines about the object and its call stacks, which the library adds to AddressSanitizer's reports.
 */
#include "base/placed.h"
#include "text/writer.h"
#include "debug/depot.h"
#include "debug/object.h"
#include "debug/symbols.h"
#include "debug/tools.h"

#include <stook/debug.h>

#include <unistd.h>

#define TOOLS_WEAK extern __attribute__((weak, visibility("default")))
TOOLS_WEAK void __asan_set_error_report_callback(void (*fn)(const char *report));
TOOLS_WEAK void *__asan_get_report_address(void);

static void tools_stack(struct writer *w, const struct stook_object_track *track, const char *did)
{
    static struct symbol
        frame[DEPOT_DEPTH] LARGE_BSS; /* the runtime reports once, and one thread at a time */

    writer_print(w, "%s by thread %d, %llu ms ago:\n", did, track->thread,
                 (unsigned long long)(track->age / 1000000));
    for (unsigned i = 0; i < track->depth; i++)
        frame[i] = (struct symbol){.address = track->stack[i]};
    symbols_find(frame, track->depth);
    for (unsigned i = 0; i < track->depth; i++)
        writer_print(w, "    #%u 0x%llx in %.80s (%.48s+0x%llx)\n", i,
                     (unsigned long long)frame[i].address, frame[i].name, frame[i].module,
                     (unsigned long long)frame[i].offset);
}

/* Behind the runtime's report, which knows the address and not the object. */
static void tools_describe(const char *report)
{
    const char *address = __asan_get_report_address ? __asan_get_report_address() : NULL;
    const struct stook_cache *cache = address ? slab_user_cache(address) : NULL;
    struct stook_object_track track = {.size = sizeof(track)};
    const struct slab *slab;
    struct writer writer;
    uint32_t index;
    const char *object;
    size_t size;

    (void)report;
    if (!cache)
        return;
    slab = slab_at(address, *pagemap_at(address));
    /* The bytes before an object's start are its left zone. */
    index = layout_index(&cache->layout,
                         (uint32_t)(address + zone_left(cache) - slab_first(cache, slab)));
    if (index >= slab_objects(cache, atomic_load_explicit(&slab->state, memory_order_relaxed)))
        return;
    object = slab_object(cache, slab, index);
    size = track_head(cache, slab, index)->requested;
    if (size == 0)
        size = cache->object_size;
    writer_init(&writer, STDERR_FILENO);
    writer_print(&writer, "stook: %p is ", (const void *)address);
    if (address < object)
        writer_print(&writer, "%zu bytes before", (size_t)(object - address));
    else if (address < object + size)
        writer_print(&writer, "%zu bytes inside of", (size_t)(address - object));
    else
        writer_print(&writer, "%zu bytes after", (size_t)(address - object) - size);
    writer_print(&writer, " object %p of %zu bytes of cache %s\n", (const void *)object, size,
                 cache->name);
    /* A live object has a track of its previous free as well, which does not matter. */
    if ((atomic_load_explicit(object_word(cache, slab, index), memory_order_relaxed) &
         OBJECT_STATE) != OBJECT_LIVE &&
        stook_object_track(object, STOOK_TRACK_FREE, &track) == 0)
        tools_stack(&writer, &track, "freed");
    if (stook_object_track(object, STOOK_TRACK_ALLOC, &track) == 0)
        tools_stack(&writer, &track, "allocated");
    (void)writer_finish(&writer);
}

FIRST_TEXT void tools_report_start(void)
{
    if ((tools_watch & TOOLS_ASAN) && __asan_set_error_report_callback)
        __asan_set_error_report_callback(tools_describe);
}
