/* SPDX-License-Identifier: MIT */
#include "slab/wrong.h"

#include "base/hooks.h"
#include "base/report.h"
#include "slab/mark.h"
#include "slab/slab.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- in one sentence ------------------------------------------------------------------------ */

struct wrong_text {
    char *to;
    size_t room, used;
};

/* vsnprintf of integers and short strings takes no memory in glibc and musl. */
static void wrong_say(struct wrong_text *text, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static void wrong_say(struct wrong_text *text, const char *format, ...)
{
    va_list args;
    int n;

    va_start(args, format);
    n = vsnprintf(text->to + text->used, text->room - text->used, format, args);
    va_end(args);
    if (n > 0)
        text->used += (size_t)n < text->room - text->used ? (size_t)n : text->room - text->used - 1;
}

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

/* "pointer P what; it lies N bytes into object I of slab S of cache C (object size N)" */
static void wrong_pointer(struct wrong_text *text, const void *pointer, const char *what)
{
    const struct stook_cache *owner = slab_cache_of(pointer);
    const struct slab *slab;
    uint32_t index;

    wrong_say(text, "bad free: pointer %p %s", pointer, what);
    if (!owner)
        return;
    if (owner->flags & CACHE_INTERNAL) {
        wrong_say(text, ": it is the library's own memory (its cache %s)", owner->name);
        return;
    }
    slab = slab_at(pointer, *pagemap_at(pointer));
    if (!wrong_place(pointer, &slab, &index)) {
        wrong_say(text, "; it lies in no object of slab %p of cache %s (object size %zu)",
                  (void *)slab_base(slab), owner->name, owner->object_size);
        return;
    }
    wrong_say(text, "; it lies %zu bytes into object %u of slab %p of cache %s (object size %zu)",
              (size_t)((const char *)pointer - (const char *)slab_object(owner, slab, index)),
              index, (void *)slab_base(slab), owner->name, owner->object_size);
}

/* Bytes of the object that are its user's. */
static size_t wrong_size(const struct debug_finding *f)
{
    return f->requested ? f->requested : f->size ? f->size : f->cache ? f->cache->object_size : 0;
}

static void wrong_bytes(struct wrong_text *text, const struct debug_finding *f)
{
    const uint8_t *at = f->at;
    const char *object = f->object;

    if (f->what == DEBUG_RIGHT_ZONE || f->what == DEBUG_LEFT_ZONE)
        wrong_say(text, "%s red zone overwritten: byte %p",
                  f->what == DEBUG_LEFT_ZONE ? "left" : "right", f->at);
    else if (f->what == DEBUG_POISON)
        wrong_say(text, "free object %p was written to: byte %zu", f->object,
                  (size_t)((const char *)at - object));
    else
        wrong_say(text, "padding overwritten: byte %p", f->at);
    wrong_say(text, " is 0x%02x instead of 0x%02x", *at, f->expected);
    if (f->what == DEBUG_RIGHT_ZONE)
        wrong_say(text, ", %zu behind the %zu bytes of object %p",
                  (size_t)((const char *)at - object) - wrong_size(f), wrong_size(f), f->object);
    else if (f->what == DEBUG_LEFT_ZONE)
        wrong_say(text, ", %zu before object %p", (size_t)(object - (const char *)at), f->object);
    else if (f->what == DEBUG_PADDING && f->slab)
        wrong_say(text, ", of no object of slab %p", (void *)slab_base(f->slab));
}

static void wrong_freelist(struct wrong_text *text, const struct debug_finding *f)
{
    wrong_say(text, "corrupt freelist: slab %p", (void *)slab_base(f->slab));
    if (f->value == SLAB_NONE)
        wrong_say(text, ": the list ends early, at object %u", f->index);
    else
        wrong_say(text,
                  ", object %u links to %zu of %zu; an object was written to after it was freed, "
                  "or its neighbour overran",
                  f->index, f->value, f->objects);
}

static void wrong_call(struct wrong_text *text, const struct debug_finding *f)
{
    const char *call = f->call ? f->call : "free";

    switch (f->what) {
    case DEBUG_LIBRARY:
        wrong_say(text, "%s: pointer %p is the library's own memory (its cache %s)", call, f->at,
                  f->text ? f->text : "?");
        break;
    case DEBUG_FOREIGN:
        wrong_say(text, "%s: pointer %p is not of this malloc (another allocator's, or none's)",
                  call, f->at);
        break;
    case DEBUG_AT_ONCE:
        wrong_say(text, "%s: pointer %p was freed at the same time by another thread", call, f->at);
        break;
    case DEBUG_INTERIOR:
        wrong_say(text, "%s: pointer %p lies %zu bytes into the object %p of %zu bytes", call,
                  f->at, (size_t)((const char *)f->at - (const char *)f->object), f->object,
                  f->size);
        break;
    case DEBUG_REALLOC_FREED:
        wrong_say(text, "%s: object %p is free already", f->call ? f->call : "realloc", f->at);
        break;
    default:
        wrong_say(text, "%s: pointer %p is in no object: freed already, or never handed out", call,
                  f->at);
    }
}

static void wrong_what(struct wrong_text *text, const struct debug_finding *f)
{
    switch (f->what) {
    case DEBUG_RIGHT_ZONE:
    case DEBUG_LEFT_ZONE:
    case DEBUG_POISON:
    case DEBUG_PADDING:
        wrong_bytes(text, f);
        break;
    case DEBUG_LINK:
        wrong_freelist(text, f);
        break;
    case DEBUG_MARK:
        wrong_pointer(text, f->object,
                      "has no mark that is valid: bytes behind an object were overwritten");
        break;
    case DEBUG_COLUMN:
        wrong_say(
            text,
            "corrupt %s: that of object %p was overwritten; the object or its neighbour overran",
            f->text ? f->text : "column", f->object);
        break;
    case DEBUG_COUNT:
        wrong_say(text, "slab %p counts %zu objects in use, and %zu were found",
                  (void *)slab_base(f->slab), f->value, f->objects);
        break;
    case DEBUG_DOUBLE_FREE:
        wrong_pointer(text, f->at, f->text ? f->text : "is freed twice");
        break;
    case DEBUG_WRONG_CACHE:
        wrong_pointer(text, f->at, "is of no slab of this cache");
        break;
    case DEBUG_STILL_OUT:
        wrong_say(text, "object %p of %zu bytes is still in use", f->object, wrong_size(f));
        break;
    case DEBUG_SIZE:
        wrong_say(text, "sized free: object %p of %zu bytes is freed as one of %zu", f->object,
                  wrong_size(f), f->value);
        break;
    case DEBUG_MISMATCH:
        wrong_say(text, "mismatched free: object %p was %s", f->object, f->text ? f->text : "?");
        break;
    case DEBUG_GUARD:
        wrong_say(text, "%s", f->text ? f->text : "?");
        break;
    case DEBUG_DESTROYED:
        wrong_say(text, "%s: the cache was destroyed before", f->call ? f->call : "use");
        break;
    case DEBUG_INTERIOR:
        if (f->cache && !f->size)
            wrong_pointer(text, f->at, "is not the start of an object");
        else
            wrong_call(text, f);
        break;
    case DEBUG_FOREIGN:
        if (f->cache)
            wrong_pointer(text, f->at, "is not of this library");
        else
            wrong_call(text, f);
        break;
    default:
        wrong_call(text, f);
    }
}

size_t wrong_sentence(const struct debug_finding *finding, char *to, size_t room)
{
    struct wrong_text text = {to, room, 0};

    if (finding->cache)
        wrong_say(&text, "BUG %s: ", finding->cache->name);
    else
        wrong_say(&text, "BUG: ");
    wrong_what(&text, finding);
    return text.used;
}

/* ---- on its way ----------------------------------------------------------------------------- */

void wrong_found(const struct debug_finding *finding)
{
    char text[512];

    if (hooks.report) {
        (void)hooks.report(finding);
        return;
    }
    wrong_sentence(finding, text, sizeof(text));
    report_warn("%s", text);
    abort();
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

__attribute__((cold)) void wrong_mark(const struct stook_cache *cache, const struct slab *slab,
                                      uint32_t index)
{
    const void *object = slab_object(cache, slab, index);
    uint32_t objects =
        slab_objects(cache, atomic_load_explicit(&slab->state, memory_order_relaxed));
    uint32_t value = cache->layout.marks ? mark_bytes(slab)[index] : *slab_link(cache, slab, index);
    uint32_t next = slab_encode(cache, index, (uint16_t)value);
    bool free = cache->layout.marks ? value == MARK_FREE : next < objects || next == SLAB_NONE;
    const struct debug_finding finding = {.what = free ? DEBUG_DOUBLE_FREE : DEBUG_MARK,
                                          .done = DEBUG_REFUSED,
                                          .cache = cache,
                                          .slab = slab,
                                          .object = object,
                                          .at = object,
                                          .index = index};

    wrong_found(&finding);
}

__attribute__((cold)) void wrong_link(const struct stook_cache *cache, const struct slab *slab,
                                      uint32_t index, uint32_t next, uint32_t objects)
{
    const struct debug_finding finding = {
        .what = DEBUG_LINK,
        .done = DEBUG_QUARANTINED,
        .cache = cache,
        .slab = slab,
        .object = index < objects ? slab_object(cache, slab, index) : NULL,
        .at = index < objects ? (const void *)slab_link(cache, slab, index) : NULL,
        .index = index,
        .value = next,
        .objects = objects};

    wrong_found(&finding);
}

__attribute__((cold)) void wrong_count(const struct stook_cache *cache, const struct slab *slab,
                                       uint32_t head, uint32_t inuse, uint32_t count)
{
    const void *object = slab_object(cache, slab, head);
    const struct debug_finding finding = {.what = DEBUG_DOUBLE_FREE,
                                          .done = DEBUG_ABORTED,
                                          .cache = cache,
                                          .slab = slab,
                                          .object = object,
                                          .at = object,
                                          .index = head,
                                          .value = inuse,
                                          .objects = count,
                                          .text =
                                              "is freed twice (its slab has fewer objects in use)"};

    wrong_found(&finding);
    abort();
}
