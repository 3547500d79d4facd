/* SPDX-License-Identifier: MIT */
/*
 * wrong.c - makes findings of what slabs find wrong, and hands them to hooks.report.  No lock, any context.
 */
#include "slab/wrong.h"

#include "base/hooks.h"
#include "base/report.h"
#include "slab/mark.h"
#include "slab/slab.h"

#include <stdlib.h>

bool wrong_place(const void *pointer, const struct slab **slab, uint32_t *index)
{
    const struct stook_cache *cache = slab_cache_of(pointer);
    uint32_t offset;

    if (!cache)
        return false;
    *slab = slab_at(pointer, *pagemap_at(pointer));
    offset = (uint32_t)((const char *)pointer - slab_base(*slab));
    if (offset < cache->layout.lead)
        return false;
    *index = layout_index(&cache->layout, offset - cache->layout.lead);
    return *index <
           slab_objects(cache, atomic_load_explicit(&(*slab)->state, memory_order_relaxed));
}

/* What the core finds by itself. */
static const char *wrong_words(enum debug_what what)
{
    return what == DEBUG_MARK          ? "has no mark that is valid"
           : what == DEBUG_DOUBLE_FREE ? "is freed twice"
           : what == DEBUG_WRONG_CACHE ? "is of no slab of this cache"
           : what == DEBUG_INTERIOR    ? "is not the start of an object"
                                       : "is not of this library";
}

/* Where the core is all there is. */
static _Noreturn void wrong_say(const struct debug_finding *f)
{
    const char *name = f->cache ? f->cache->name : "?", *words = wrong_words(f->what);
    const struct slab *slab;
    uint32_t index;

    if (f->what == DEBUG_LINK || f->what == DEBUG_COLUMN)
        report_fatal("BUG %s: corrupt %s: slab %p", name, f->text ? f->text : "freelist",
                     (void *)slab_base(f->slab));
    if (!wrong_place(f->at, &slab, &index))
        report_fatal("BUG %s: bad free: pointer %p %s", name, f->at, words);
    report_fatal("BUG %s: bad free: pointer %p %s; it lies %zu bytes into object %u of slab %p",
                 name, f->at, words,
                 (size_t)((const char *)f->at -
                          (const char *)slab_object(slab_cache_of(f->at), slab, index)),
                 index, (void *)slab_base(slab));
}

void wrong_found(const struct debug_finding *finding)
{
    if (hooks.report)
        (void)hooks.report(finding);
    else
        wrong_say(finding);
}

__attribute__((cold)) void wrong_free(const struct stook_cache *cache, const void *pointer,
                                      enum debug_what what)
{
    struct debug_finding finding = {
        .what = what, .done = DEBUG_REFUSED, .cache = cache, .at = pointer};
    const struct stook_cache *owner = slab_cache_of(pointer);

    if (owner && !(owner->flags & CACHE_INTERNAL) &&
        wrong_place(pointer, &finding.slab, &finding.index))
        finding.object = slab_object(owner, finding.slab, finding.index);
    wrong_found(&finding);
}

static struct debug_finding wrong_object(const struct stook_cache *cache, const struct slab *slab,
                                         uint32_t index, enum debug_what what)
{
    const void *object = slab_object(cache, slab, index);

    return (struct debug_finding){.what = what,
                                  .done = DEBUG_REFUSED,
                                  .cache = cache,
                                  .slab = slab,
                                  .object = object,
                                  .at = object,
                                  .index = index};
}

__attribute__((cold)) void wrong_mark(const struct stook_cache *cache, const struct slab *slab,
                                      uint32_t index)
{
    uint32_t objects =
        slab_objects(cache, atomic_load_explicit(&slab->state, memory_order_relaxed));
    uint32_t value = cache->layout.marks ? mark_bytes(slab)[index] : *slab_link(cache, slab, index);
    uint32_t next = slab_encode(cache, index, (uint16_t)value);
    bool free = cache->layout.marks ? value == MARK_FREE : next < objects || next == SLAB_NONE;
    struct debug_finding finding =
        wrong_object(cache, slab, index, free ? DEBUG_DOUBLE_FREE : DEBUG_MARK);

    wrong_found(&finding);
}

__attribute__((cold)) void wrong_link(const struct stook_cache *cache, const struct slab *slab,
                                      uint32_t index, uint32_t next, uint32_t objects)
{
    struct debug_finding finding = wrong_object(cache, slab, index, DEBUG_LINK);

    finding.done = DEBUG_QUARANTINED;
    finding.at = slab_link(cache, slab, index);
    finding.value = next;
    finding.objects = objects;
    if (index >= objects)
        finding.object = finding.at = NULL;
    wrong_found(&finding);
}

__attribute__((cold)) void wrong_count(const struct stook_cache *cache, const struct slab *slab,
                                       uint32_t head, uint32_t inuse, uint32_t count)
{
    struct debug_finding finding = wrong_object(cache, slab, head, DEBUG_DOUBLE_FREE);

    finding.done = DEBUG_ABORTED;
    finding.value = inuse;
    finding.objects = count;
    finding.text = "is freed twice (its slab has fewer objects in use)";
    wrong_found(&finding);
    abort();
}
