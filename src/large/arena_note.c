/* SPDX-License-Identifier: MIT */
/*
 * arena_note.c - finds and writes the notes of runs, which lie with their block's metadata, and those of spans.
 */
#include "large/arena_note.h"

#include "base/context.h"
#include "base/lock.h"
#include "page/zone.h"

/* Runs have theirs with their block's metadata, a note a page. */
static uint64_t *arena_note_at(const void *object, bool span)
{
    uint32_t index = pagemap_index(object);

    if (span)
        return &zone_block(index)->span_note;
    return (uint64_t *)(void *)(pagemap_meta(index) + BLOCK_META - BLOCK_NOTES) + zone_page(object);
}

static bool arena_has_note(const void *object, bool span)
{
    return span || zone_has_meta(zone_of(object), pagemap_index(object));
}

const void *arena_note(const void *object, bool span)
{
    static const uint64_t none;

    return arena_has_note(object, span) ? arena_note_at(object, span) : &none;
}

/* The run's block was cut before anything was said of any. */
static bool arena_make_note(const void *object)
{
    struct zone *zone = zone_of(object);
    bool done;

    /* A handler may be on top of the lock's holder. */
    if (!lock_enter(&zone->lock, LOCK_ARENA, context_self()->depth > 1))
        return false;
    done = zone_add_meta(zone, zone_block(pagemap_index(object))) == 0;
    lock_drop(&zone->lock, LOCK_ARENA);
    return done;
}

__attribute__((cold)) bool arena_set_note(const void *object, bool span, uint64_t note)
{
    if (!atomic_load_explicit(&zone_all.noted, memory_order_relaxed))
        atomic_store_explicit(&zone_all.noted, true, memory_order_relaxed);
    if (!arena_has_note(object, span) && !arena_make_note(object))
        return false;
    *arena_note_at(object, span) = note;
    return true;
}

/* Where nothing was ever noted, no note is touched. */
void arena_unnote(const void *object, bool span)
{
    uint64_t *note;

    if (!atomic_load_explicit(&zone_all.noted, memory_order_relaxed) ||
        !arena_has_note(object, span))
        return;
    note = arena_note_at(object, span);
    if (*note != 0)
        *note = 0;
}
