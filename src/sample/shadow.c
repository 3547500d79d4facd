/* SPDX-License-Identifier: MIT */
/*
 * shadow.c - shadow caches: each is made with its first sample, and each object's element has what is known of it.
 */
#include "sample/shadow.h"

#include "base/context.h"
#include "base/placed.h"
#include "cache/alloc.h"
#include "cache/cache_list.h"
#include "sample/otel.h"
#include "sample/sites.h"
#include "slab/column.h"

#include <errno.h>
#include <string.h>

static _Atomic(struct stook_cache *) shadow_caches[SHADOW_LAST - SHADOW_FIRST + 1];

_Atomic uint64_t shadow_use[STOOK_CACHES_MAX] LARGE_BSS;

/* An object of a shadow cache comes, or goes, that stands in for one of so many bytes. */
static void shadow_uses(const struct stook_cache *shadow, uint32_t cache, uint64_t bytes, bool come)
{
    if (cache >= STOOK_CACHES_MAX)
        return;
    atomic_fetch_add_explicit(&shadow_use[cache], come ? 1 : -(uint64_t)1, memory_order_relaxed);
    atomic_fetch_add_explicit(&shadow_use[shadow->index], come ? bytes : -bytes,
                              memory_order_relaxed);
}

static uint64_t shadow_key(const void *object)
{
    return (uintptr_t)object ^ SHADOW_KEY;
}

static struct shadow *shadow_of(const struct stook_cache *cache, const void *object)
{
    uint32_t index;
    const struct slab *slab = slab_find(cache, object, &index);

    return column_at(cache, slab, LAYOUT_TRACK, index);
}

struct stook_cache *shadow_cache(unsigned number)
{
    return atomic_load_explicit(&shadow_caches[number], memory_order_acquire);
}

static void shadow_name(char name[STOOK_NAME_MAX + 1], unsigned shift)
{
    char digits[8];
    unsigned n = 0, size = shift < 10 ? 1u << shift : 1u << (shift - 10);
    char *at = name + sizeof("sampled-") - 1;

    memcpy(name, "sampled-", sizeof("sampled-"));
    for (; size > 0; size /= 10)
        digits[n++] = (char)('0' + size % 10);
    while (n > 0)
        *at++ = digits[--n];
    if (shift >= 10)
        *at++ = 'k';
    *at = '\0';
}

/* Made with its first sample, unless a lock is in the way: then another sample makes it.  They stay. */
LOCK_UNCHECKED static struct stook_cache *shadow_make(unsigned shift)
{
    struct stook_cache_args args = {.align = (size_t)1 << (shift < PAGE_SHIFT ? shift : PAGE_SHIFT),
                                    .flags = CACHE_SHADOW | STOOK_CACHE_NOSHEAF};
    _Atomic(struct stook_cache *) *place = &shadow_caches[shift - SHADOW_FIRST];
    char name[STOOK_NAME_MAX + 1];
    struct stook_cache *cache;

    shadow_name(name, shift);
    context_enter();
    if (lock_enter(&cache_list.lock, LOCK_CACHES, true)) {
        if (!atomic_load_explicit(place, memory_order_relaxed) &&
            (cache = cache_make(name, (size_t)1 << shift, &args)) != NULL)
            atomic_store_explicit(place, cache, memory_order_release);
        lock_drop(&cache_list.lock, LOCK_CACHES);
    }
    context_leave();
    return atomic_load_explicit(place, memory_order_acquire);
}

/* The cache whose objects are as large and as aligned; NULL: there is none. */
static struct stook_cache *shadow_for(size_t size, size_t align)
{
    unsigned shift = SHADOW_FIRST;
    struct stook_cache *cache;

    if (size < align)
        size = align;
    while (shift <= SHADOW_LAST && (size_t)1 << shift < size)
        shift++;
    if (shift > SHADOW_LAST || align > STOOK_ALIGN_MAX)
        return NULL;
    cache = shadow_cache(shift - SHADOW_FIRST);
    return cache ? cache : shadow_make(shift);
}

void *shadow_alloc(struct stook_cache *cache, const struct shadow_call *call, float weight)
{
    struct stook_cache *shadow =
        shadow_for(call->size > cache->layout.room ? call->size : cache->layout.room,
                   call->align > cache->align ? call->align : cache->align);
    void *object = shadow ? alloc_plain(shadow, STOOK_NORECLAIM) : NULL;
    struct site_key key = {.kind = SITE_OBJECT,
                           .cache = cache->index,
                           .group = call->group,
                           .name = cache->name,
                           .where = call->where};
    struct shadow *element;

    if (!object)
        return NULL;
    element = shadow_of(shadow, object);
    *element = (struct shadow){.key = shadow_key(object),
                               .site = sites_find(&key),
                               .weight = weight,
                               .cache = cache->index,
                               .bytes = cache->layout.stride};
    if (call->zero)
        memset(object, 0, shadow->object_size);
    else /* the place of malloc's mark of a freed object */
        memset((char *)object + sizeof(uint64_t), 0, sizeof(uint64_t));
    shadow_uses(shadow, element->cache, element->bytes, true);
    sites_came(element->site, element->weight, element->bytes, call->size);
    element->born = sites_age();
    otel_alloc(object, call->size, (uint64_t)(element->weight * (float)call->size));
    return object;
}

void shadow_typed(struct stook_cache *cache, uint64_t where, uint32_t group)
{
    struct sample sample = sample_take(cache->layout.stride);
    struct site_key key = {.kind = SITE_TYPED,
                           .cache = cache->index,
                           .group = group,
                           .name = cache->name,
                           .where = where};
    int saved = errno;

    if (sample.weight == 0 || sample.line != SAMPLE_PROFILE || context_self()->depth > 0 ||
        (cache_parts(cache) & ACCOUNT_TAG)) /* its objects are counted by call site */
        return;
    sites_came(sites_find(&key), sample.weight, cache->layout.stride, cache->object_size);
    errno = saved;
}

size_t shadow_size(const struct stook_cache *cache, const void *object)
{
    const struct shadow *element = shadow_of(cache, object);
    const struct stook_cache *other =
        element->key == shadow_key(object) && element->cache < STOOK_CACHES_MAX
            ? cache_table[element->cache]
            : NULL;

    return other ? other->layout.room : cache->layout.room;
}

void shadow_freed(const struct stook_cache *cache, void *const *objects, size_t n)
{
    int saved = errno;

    for (size_t i = 0; i < n; i++) {
        struct shadow *element = objects[i] ? shadow_of(cache, objects[i]) : NULL, was;
        if (!element || element->key != shadow_key(objects[i]))
            continue;
        was = *element;
        element->key = 0;
        otel_free(objects[i]);
        shadow_uses(cache, was.cache, was.bytes, false);
        sites_went(was.site, was.weight, was.bytes, was.born);
    }
    errno = saved;
}

void shadow_begin(uint64_t mean)
{
    atomic_store_explicit(&sites.mean, mean, memory_order_relaxed);
    (void)sites_begin();
    sample_begin(SAMPLE_PROFILE, mean);
}
