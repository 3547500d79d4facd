/* SPDX-License-Identifier: MIT */
#include "debug/tools.h"

#include "base/placed.h"
#include "base/report.h"
#include "base/writer.h"
#include "debug/depot.h"
#include "debug/symbols.h"
#include "debug/object.h"
#include "debug/zone.h"

#include <stook/debug.h>

#include <unistd.h>

#if defined(__has_include) && !defined(STOOK_NO_VALGRIND)
#if __has_include(<valgrind/memcheck.h>)
#include <valgrind/memcheck.h>
#define TOOLS_HAS_VALGRIND 1
#endif
#endif

uint8_t tools_watch;

/* The runtime's interface (sanitizer/asan_interface.h), which is NULL in other programs. */
#define TOOLS_WEAK extern __attribute__((weak, visibility("default")))
TOOLS_WEAK void __asan_poison_memory_region(void const volatile *from, size_t n);
TOOLS_WEAK void __asan_unpoison_memory_region(void const volatile *from, size_t n);
TOOLS_WEAK void __asan_set_error_report_callback(void (*fn)(const char *report));
TOOLS_WEAK void *__asan_get_report_address(void);
TOOLS_WEAK void __lsan_register_root_region(const void *from, size_t n);
TOOLS_WEAK void __lsan_unregister_root_region(const void *from, size_t n);

/* ---- AddressSanitizer's report ---------------------------------------------------------------- */

static void tools_stack(struct writer *w, const struct stook_object_track *track, const char *did)
{
    static struct symbol frame[DEPOT_DEPTH]; /* the runtime reports once, and one thread at a time */

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
    /* What lies before an object's start is its left zone. */
    index = layout_index(&cache->layout,
                         (uint32_t)(address + zone_left(cache) - slab_first(cache, slab)));
    if (index >=
        slab_objects(cache, atomic_load_explicit(&slab->state, memory_order_relaxed)))
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
    /* Who had a live object before is of no interest. */
    if ((atomic_load_explicit(object_word(cache, slab, index), memory_order_relaxed) &
           OBJECT_STATE) != OBJECT_LIVE &&
        stook_object_track(object, STOOK_TRACK_FREE, &track) == 0)
        tools_stack(&writer, &track, "freed");
    if (stook_object_track(object, STOOK_TRACK_ALLOC, &track) == 0)
        tools_stack(&writer, &track, "allocated");
    (void)writer_finish(&writer);
}

/* ---- both ------------------------------------------------------------------------------------- */

FIRST_TEXT void tools_start(void)
{
#ifndef __SANITIZE_ADDRESS__
    if (__asan_poison_memory_region && __asan_unpoison_memory_region) {
        tools_watch |= TOOLS_ASAN;
        if (__asan_set_error_report_callback)
            __asan_set_error_report_callback(tools_describe);
    }
#else
    (void)tools_describe;
#endif
#ifdef TOOLS_HAS_VALGRIND
    if (RUNNING_ON_VALGRIND)
        tools_watch |= TOOLS_VALGRIND;
#endif
}

void tools_quiet_slow(bool quiet)
{
    (void)quiet;
#ifdef TOOLS_HAS_VALGRIND
    if (quiet && (tools_watch & TOOLS_VALGRIND))
        VALGRIND_DISABLE_ERROR_REPORTING;
    else if (tools_watch & TOOLS_VALGRIND)
        VALGRIND_ENABLE_ERROR_REPORTING;
#endif
}

void tools_open_slow(const void *from, size_t n)
{
    if (tools_watch & TOOLS_ASAN)
        __asan_unpoison_memory_region(from, n);
#ifdef TOOLS_HAS_VALGRIND
    if (tools_watch & TOOLS_VALGRIND)
        VALGRIND_MAKE_MEM_DEFINED(from, n);
#endif
}

void tools_close_slow(const void *from, size_t n)
{
    if (tools_watch & TOOLS_ASAN)
        __asan_poison_memory_region(from, n);
#ifdef TOOLS_HAS_VALGRIND
    if (tools_watch & TOOLS_VALGRIND)
        VALGRIND_MAKE_MEM_NOACCESS(from, n);
#endif
}

void tools_slab_made_slow(const struct stook_cache *cache, struct slab *slab, size_t bytes)
{
    char *base = slab_base(slab);

    if ((tools_watch & TOOLS_ASAN) && __lsan_register_root_region)
        __lsan_register_root_region(base, bytes);
    /* A constructor's objects stay open: it writes to them next, and what it wrote is not to be forgotten. */
    if (!cache->ctor && !cache->dtor)
        tools_close_slow(base, bytes);
}

void tools_slab_gone_slow(struct slab *slab, size_t bytes)
{
    char *base = slab_base(slab);

    if ((tools_watch & TOOLS_ASAN) && __lsan_unregister_root_region)
        __lsan_unregister_root_region(base, bytes);
    tools_open_slow(base, bytes);
}

void tools_alloc_slow(const struct stook_cache *cache, const void *object, size_t size)
{
    const char *zone = (const char *)object - zone_left(cache);

    tools_close_slow(zone, cache->layout.stride);
    if (tools_watch & TOOLS_ASAN)
        __asan_unpoison_memory_region(object, size);
#ifdef TOOLS_HAS_VALGRIND
    if (tools_watch & TOOLS_VALGRIND) {
        VALGRIND_MALLOCLIKE_BLOCK(object, size, zone_left(cache), 0);
        if (cache->ctor || cache->dtor)
            VALGRIND_MAKE_MEM_DEFINED(object, size);
    }
#endif
}

void tools_resize_slow(const struct stook_cache *cache, const void *object, size_t had, size_t size)
{
    const char *at = object, *end = at + zone_end(cache);

    tools_close_slow(at - zone_left(cache), zone_left(cache));
    if (tools_watch & TOOLS_ASAN)
        __asan_unpoison_memory_region(object, size);
#ifdef TOOLS_HAS_VALGRIND
    if (tools_watch & TOOLS_VALGRIND) {
        VALGRIND_RESIZEINPLACE_BLOCK(object, had, size, zone_left(cache));
    }
#endif
    (void)had;
    tools_close_slow(at + size, (size_t)(end - at) - size);
}

void tools_free_slow(const struct stook_cache *cache, const void *object)
{
    const char *zone = (const char *)object - zone_left(cache);

#ifdef TOOLS_HAS_VALGRIND
    if (tools_watch & TOOLS_VALGRIND)
        VALGRIND_FREELIKE_BLOCK(object, zone_left(cache));
#endif
    tools_close_slow(zone, cache->layout.stride);
    /* What was constructed is destructed later; what is type-stable may be read. */
    if (cache->ctor || cache->dtor || (cache->flags & STOOK_CACHE_TYPESAFE))
        tools_open_slow(object, cache->object_size);
}
