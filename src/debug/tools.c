/* SPDX-License-Identifier: MIT */
/* tools.c - the calls of AddressSanitizer's and Valgrind's interfaces that open and close bytes to the program. */
#include "debug/tools.h"

#include "base/placed.h"
#include "debug/zone.h"

#include <stddef.h>

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
TOOLS_WEAK void __lsan_register_root_region(const void *from, size_t n);
TOOLS_WEAK void __lsan_unregister_root_region(const void *from, size_t n);

FIRST_TEXT void tools_start(void)
{
#ifndef __SANITIZE_ADDRESS__
    if (__asan_poison_memory_region && __asan_unpoison_memory_region)
        tools_watch |= TOOLS_ASAN;
#endif
#ifdef TOOLS_HAS_VALGRIND
    if (RUNNING_ON_VALGRIND)
        tools_watch |= TOOLS_VALGRIND;
#endif
}

void tools_quiet(bool quiet)
{
    (void)quiet;
#ifdef TOOLS_HAS_VALGRIND
    if (quiet && (tools_watch & TOOLS_VALGRIND))
        VALGRIND_DISABLE_ERROR_REPORTING;
    else if (tools_watch & TOOLS_VALGRIND)
        VALGRIND_ENABLE_ERROR_REPORTING;
#endif
}

void tools_open(const void *from, size_t n)
{
    if (tools_watch & TOOLS_ASAN)
        __asan_unpoison_memory_region(from, n);
#ifdef TOOLS_HAS_VALGRIND
    if (tools_watch & TOOLS_VALGRIND)
        VALGRIND_MAKE_MEM_DEFINED(from, n);
#endif
}

void tools_close(const void *from, size_t n)
{
    if (tools_watch & TOOLS_ASAN)
        __asan_poison_memory_region(from, n);
#ifdef TOOLS_HAS_VALGRIND
    if (tools_watch & TOOLS_VALGRIND)
        VALGRIND_MAKE_MEM_NOACCESS(from, n);
#endif
}

void tools_slab_made(const struct stook_cache *cache, struct slab *slab, size_t bytes)
{
    char *base = slab_base(slab);

    if ((tools_watch & TOOLS_ASAN) && __lsan_register_root_region)
        __lsan_register_root_region(base, bytes);
    /* A constructor's objects stay open: it writes to them next, and what it wrote is not to be forgotten. */
    if (!cache->ctor && !cache->dtor)
        tools_close(base, bytes);
}

void tools_slab_gone(struct slab *slab, size_t bytes)
{
    char *base = slab_base(slab);

    if ((tools_watch & TOOLS_ASAN) && __lsan_unregister_root_region)
        __lsan_unregister_root_region(base, bytes);
    tools_open(base, bytes);
}

void tools_pages(const void *object, size_t had, size_t size, size_t large)
{
    if ((tools_watch & TOOLS_ASAN) && __lsan_register_root_region && had == 0)
        __lsan_register_root_region(object, large);
    if (tools_watch & TOOLS_ASAN)
        __asan_unpoison_memory_region(object, size);
#ifdef TOOLS_HAS_VALGRIND
    /* Its bytes count as written: they may be zeros that were asked for. */
    if ((tools_watch & TOOLS_VALGRIND) && had == 0)
        VALGRIND_MALLOCLIKE_BLOCK(object, size, 0, 1);
    else if (tools_watch & TOOLS_VALGRIND)
        VALGRIND_RESIZEINPLACE_BLOCK(object, had, size, 0);
#endif
    tools_close((const char *)object + size, large - size);
}

void tools_pages_gone(const void *object, size_t large)
{
    if ((tools_watch & TOOLS_ASAN) && __lsan_unregister_root_region)
        __lsan_unregister_root_region(object, large);
#ifdef TOOLS_HAS_VALGRIND
    if (tools_watch & TOOLS_VALGRIND)
        VALGRIND_FREELIKE_BLOCK(object, 0);
#endif
    tools_close(object, large);
}

void tools_alloc(const struct stook_cache *cache, const void *object, size_t size)
{
    const char *zone = (const char *)object - zone_left(cache);

    tools_close(zone, cache->layout.stride);
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

void tools_resize(const struct stook_cache *cache, const void *object, size_t had, size_t size)
{
    const char *at = object, *end = at + zone_end(cache);

    tools_close(at - zone_left(cache), zone_left(cache));
    if (tools_watch & TOOLS_ASAN)
        __asan_unpoison_memory_region(object, size);
#ifdef TOOLS_HAS_VALGRIND
    if (tools_watch & TOOLS_VALGRIND) {
        VALGRIND_RESIZEINPLACE_BLOCK(object, had, size, zone_left(cache));
    }
#endif
    (void)had;
    tools_close(at + size, (size_t)(end - at) - size);
}

void tools_free(const struct stook_cache *cache, const void *object)
{
    const char *zone = (const char *)object - zone_left(cache);

#ifdef TOOLS_HAS_VALGRIND
    if (tools_watch & TOOLS_VALGRIND)
        VALGRIND_FREELIKE_BLOCK(object, zone_left(cache));
#endif
    tools_close(zone, cache->layout.stride);
    /* What was constructed is destructed later; what is type-stable may be read. */
    if (cache->ctor || cache->dtor || (cache->flags & STOOK_CACHE_TYPESAFE))
        tools_open(object, cache->object_size);
}
