/* SPDX-License-Identifier: MIT */
/*
 * sentence.c - a finding in one sentence: the first line of its report, and of what is said in other forms.  No memory, no
 * lock, any context.
 */
#include "debug/sentence.h"

#include "slab/slab.h"
#include "slab/wrong.h"

/* What is wrong with a pointer that was given to a call; NULL: the finding is no such one. */
static const char *sentence_wrong(const struct debug_finding *f)
{
    switch (f->what) {
    case DEBUG_MARK:
        return "has no mark that is valid: bytes behind an object were overwritten";
    case DEBUG_DOUBLE_FREE:
        return f->text ? f->text : "is freed twice";
    case DEBUG_WRONG_CACHE:
        return "is of no slab of this cache";
    case DEBUG_INTERIOR:
        return "is not the start of an object";
    case DEBUG_FOREIGN:
        return f->cache ? "is not of this library"
                        : "is not of this malloc (another allocator's, or none's)";
    case DEBUG_LIBRARY:
        return "cannot be freed";
    case DEBUG_NO_OBJECT:
        return "is in no object: freed already, or never handed out";
    case DEBUG_AT_ONCE:
        return "was freed at the same time by another thread";
    case DEBUG_REALLOC_FREED:
        return "is free already";
    default:
        return NULL;
    }
}

/* "CALL: pointer P is wrong; it lies N bytes into object I of slab S of cache C (object size N)" */
static void sentence_pointer(struct writer *w, const struct debug_finding *f)
{
    const char *pointer = f->at, *object = f->object;
    const struct stook_cache *owner = slab_cache_of(pointer);
    const struct slab *slab;
    uint32_t index;

    writer_print(w, "%s: pointer %p %s",
                 f->call    ? f->call
                 : f->cache ? "bad free"
                            : "free",
                 f->at, sentence_wrong(f));
    if (!owner && object)
        writer_print(w, "; it lies %zu bytes into object %p of %zu bytes",
                     (size_t)(pointer - object), f->object, f->size);
    if (!owner)
        return;
    if (owner->flags & CACHE_INTERNAL) {
        writer_print(w, ": it is the library's own memory (its cache %s)", owner->name);
        return;
    }
    if (wrong_place(pointer, &slab, &index))
        writer_print(w, "; it lies %zu bytes into object %u",
                     (size_t)(pointer - (const char *)slab_object(owner, slab, index)), index);
    else
        writer_print(w, "; it lies in no object");
    writer_print(w, " of slab %p of cache %s (object size %zu)", (void *)slab_base(slab),
                 owner->name, owner->object_size);
}

/* Bytes of the object that are its user's. */
static size_t sentence_size(const struct debug_finding *f)
{
    return f->requested ? f->requested : f->size ? f->size : f->cache ? f->cache->object_size : 0;
}

static void sentence_bytes(struct writer *w, const struct debug_finding *f)
{
    const uint8_t *at = f->at;
    const char *object = f->object;

    if (f->what == DEBUG_RIGHT_ZONE || f->what == DEBUG_LEFT_ZONE)
        writer_print(w, "%s red zone overwritten: byte %p",
                     f->what == DEBUG_LEFT_ZONE ? "left" : "right", f->at);
    else
        writer_print(w, "free object %p was written to: byte %zu", f->object,
                     (size_t)((const char *)at - object));
    writer_print(w, " is 0x%02x instead of 0x%02x", *at, f->expected);
    if (f->what == DEBUG_RIGHT_ZONE)
        writer_print(w, ", %zu behind the %zu bytes of object %p",
                     (size_t)((const char *)at - object) - sentence_size(f), sentence_size(f),
                     f->object);
    else if (f->what == DEBUG_LEFT_ZONE)
        writer_print(w, ", %zu before object %p", (size_t)(object - (const char *)at), f->object);
}

static void sentence_freelist(struct writer *w, const struct debug_finding *f)
{
    writer_print(w, "corrupt freelist: slab %p", (void *)slab_base(f->slab));
    if (f->value == SLAB_NONE)
        writer_print(w, ": the list ends early, at object %u", f->index);
    else
        writer_print(
            w,
            ", object %u links to %zu of %zu; an object was written to after it was freed, "
            "or its neighbour overran",
            f->index, f->value, f->objects);
}

static void sentence_what(struct writer *w, const struct debug_finding *f)
{
    switch (f->what) {
    case DEBUG_RIGHT_ZONE:
    case DEBUG_LEFT_ZONE:
    case DEBUG_POISON:
        sentence_bytes(w, f);
        break;
    case DEBUG_LINK:
        sentence_freelist(w, f);
        break;
    case DEBUG_COLUMN:
        writer_print(
            w, "corrupt %s: that of object %p was overwritten; the object or its neighbour overran",
            f->text ? f->text : "column", f->object);
        break;
    case DEBUG_COUNT:
        writer_print(w, "slab %p counts %zu objects in use, and %zu were found",
                     (void *)slab_base(f->slab), f->value, f->objects);
        break;
    case DEBUG_STILL_OUT:
        writer_print(w, "object %p of %zu bytes is still in use", f->object, sentence_size(f));
        break;
    case DEBUG_SIZE:
        writer_print(w, "sized free: object %p of %zu bytes is freed as one of %zu", f->object,
                     sentence_size(f), f->value);
        break;
    case DEBUG_MISMATCH:
        writer_print(w, "mismatched free: object %p was %s", f->object, f->text ? f->text : "?");
        break;
    case DEBUG_GUARD:
        writer_print(w, "%s", f->text ? f->text : "?");
        break;
    case DEBUG_DESTROYED:
        writer_print(w, "%s: the cache was destroyed before", f->call ? f->call : "use");
        break;
    default:
        sentence_pointer(w, f);
    }
}

void sentence_write(struct writer *w, const struct debug_finding *finding)
{
    if (finding->cache)
        writer_print(w, "BUG %s: ", finding->cache->name);
    else
        writer_print(w, "BUG: ");
    sentence_what(w, finding);
}
