/* SPDX-License-Identifier: MIT */
/*
 * heap_objects.c - single objects: their states, whose an address is, who allocated it.
 */
#include "look/heap_own.h"

#include <stdlib.h>
#include <string.h>

enum { OBJECTS_DEPTH = 24 };

const char *heap_state_name(enum heap_state state)
{
    static const char *const names[] = {"free",
                                        "in use",
                                        "free, in a CPU's sheaf",
                                        "free, in a barn",
                                        "freed under readers",
                                        "freed, and held back",
                                        "unknown"};

    return names[state];
}

const char *heap_state_word(enum heap_state state)
{
    static const char *const words[] = {"free",    "live", "cpu",    "barn",
                                        "readers", "held", "unknown"};

    return words[state];
}

/* ---- states ----------------------------------------------------------------------------------- */

/* The marks of a slab: out[i] is whether the object is with a user, or in a sheaf. */
static bool objects_out(struct heap *heap, const struct heap_cache *cache,
                        const struct heap_slab *slab, uint8_t out[HEAP_OBJECTS])
{
    const struct view *v = &heap->view;
    uint64_t base = cache->link_outside ? slab->descriptor : heap_slab_base(heap, slab);
    uint16_t mark = (uint16_t)(cache->secret ^ view_value(v, VIEW_SLAB_OUT)), link;
    uint64_t marks = slab->descriptor + view_value(v, VIEW_slab_links);

    if (view_value(v, VIEW_STOOK_ENCODED) == 0)
        return false;
    if (slab->state == HEAP_SLAB_EMPTY) { /* its marks are not valid */
        memset(out, 0, slab->objects);
        return true;
    }
    if (cache->marks) {
        if (!target_read(heap->target, marks, out, HEAP_OBJECTS, slab->objects))
            return false;
        for (unsigned i = 0; i < slab->objects; i++)
            out[i] = out[i] == view_value(v, VIEW_MARK_OUT);
        return true;
    }
    base += cache->link_offset;
    target_expect(heap->target, base, (uint64_t)cache->link_stride * (slab->objects - 1u) + 2);
    for (unsigned i = 0; i < slab->objects; i++) {
        if (!target_take(heap->target, base + (uint64_t)i * cache->link_stride, &link))
            return false;
        out[i] = link == mark;
    }
    return true;
}

/* Where an object's element lies; 0: it has none. */
static uint64_t objects_column(const struct heap *heap, const struct heap_cache *cache,
                               const struct heap_slab *slab, unsigned which, uint32_t index)
{
    const struct view *v = &heap->view;
    const struct heap_column *column =
        &cache->column[(slab->flags & view_value(v, VIEW_SLAB_MIN)) != 0][which];

    if (column->element == 0 ||
        (which == HEAP_TAG && !(slab->flags & view_value(v, VIEW_SLAB_TAGGED))))
        return 0;
    return (column->outside ? slab->descriptor : heap_slab_base(heap, slab)) + column->offset +
           (uint64_t)index * column->stride;
}

/* An object that is out of its slab and in no sheaf (src/debug/object.h, src/harden/quarantine.h). */
static enum heap_state objects_held(struct heap *heap, const struct heap_cache *cache,
                                    const struct heap_slab *slab, uint32_t index)
{
    const struct view *v = &heap->view;
    uint32_t debug = (uint32_t)(view_value(v, VIEW_STOOK_CACHE_DEBUG_USER) |
                                view_value(v, VIEW_STOOK_CACHE_DEBUG_RED_ZONE));
    uint64_t at, state, states = view_value(v, VIEW_QUARANTINE_STATES);
    uint16_t word;

    if (!(cache->flags & (debug | view_value(v, VIEW_STOOK_CACHE_QUARANTINE))) ||
        (at = objects_column(heap, cache, slab, HEAP_TRACK, index)) == 0)
        return HEAP_LIVE;
    if (cache->flags & debug) /* out of its slab, but with no user, perhaps */
        return view_knows(v, VIEW_OBJECT_STATE) &&
                       view_read(v, heap->target, at, VIEW_track_head_kind, &state) &&
                       (state & view_value(v, VIEW_OBJECT_STATE)) != view_value(v, VIEW_OBJECT_LIVE)
                   ? HEAP_HELD
                   : HEAP_LIVE;
    if (states == 0 || !target_take(heap->target, at, &word))
        return HEAP_LIVE;
    return word % states == view_value(v, VIEW_QUARANTINE_LIVE) ? HEAP_LIVE : HEAP_HELD;
}

bool heap_states(struct heap *heap, const struct heap_slab *slab, uint8_t state[HEAP_OBJECTS])
{
    const struct heap_cache *cache = heap_cache_at(heap, slab->cache);

    if (!cache || !objects_out(heap, cache, slab, state))
        return false;
    for (unsigned i = 0; i < slab->objects; i++) {
        const struct heap_sheaf_object *in =
            state[i] ? heap_in_sheaf(heap, heap_object(heap, cache, slab, i)) : NULL;
        state[i] = !state[i] ? HEAP_FREE
                   : in      ? in->state
                             : (uint8_t)objects_held(heap, cache, slab, i);
    }
    return true;
}

bool heap_each_live(struct heap *heap, const struct heap_cache *cache, heap_object_fn fn, void *arg)
{
    uint8_t *state;
    bool more = true;

    if (!cache) {
        for (size_t i = 0; i < heap->larges && more; i++)
            more = fn(heap->large[i].address, heap->large[i].bytes, NULL, 0, arg);
        return more;
    }
    state = target_need(malloc(HEAP_OBJECTS));
    for (const struct heap_slab *slab = heap_slab_of(heap, cache, NULL); slab && more;
         slab = heap_slab_of(heap, cache, slab + 1)) {
        if (slab->inuse == 0 || !heap_states(heap, slab, state))
            continue;
        for (unsigned i = 0; i < slab->objects && more; i++)
            if (state[i] == HEAP_LIVE)
                more = fn(heap_object(heap, cache, slab, i), cache->object_size, slab, i, arg);
    }
    free(state);
    return more;
}

/* ---- columns ---------------------------------------------------------------------------------- */

/* A group's or a site's number, as src/charge/element.h stores it; 0: none. */
static uint32_t objects_number(struct heap *heap, const struct heap_cache *cache,
                               const struct heap_slab *slab, unsigned which, uint32_t index)
{
    uint64_t at = objects_column(heap, cache, slab, which, index), stored,
             object = heap_object(heap, cache, slab, index);

    if (!at || !target_take(heap->target, at, &stored) || stored == 0)
        return 0;
    stored ^= cache->account_key ^ (object << 32 | object >> 32);
    return stored >> 32 ? 0 : (uint32_t)stored;
}

/* The frames of a stack in the depot (src/debug/depot.h). */
static uint32_t objects_stack(struct heap *heap, uint32_t number, uint64_t frames[OBJECTS_DEPTH])
{
    const struct view *v = &heap->view;
    unsigned shift = (unsigned)view_value(v, VIEW_DEPOT_CHUNK_SHIFT);
    uint64_t chunk, depth, record;

    if (number == 0 || !view_knows(v, VIEW_at_depot) || shift == 0 ||
        number >> shift >= view_value(v, VIEW_DEPOT_CHUNKS) ||
        !target_take(heap->target,
                     view_value(v, VIEW_at_depot) + view_value(v, VIEW_depot_chunk) +
                         (uint64_t)(number >> shift) * 8,
                     &chunk) ||
        chunk == 0)
        return 0;
    record = chunk + 8 * (uint64_t)(number & ((1u << shift) - 1));
    if (!view_read(v, heap->target, record, VIEW_depot_record_depth, &depth) ||
        !target_read(heap->target, record + view_value(v, VIEW_depot_record_frames), frames,
                     OBJECTS_DEPTH * sizeof(frames[0]), depth * sizeof(frames[0])))
        return 0;
    return (uint32_t)depth;
}

static void objects_who(struct heap *heap, uint64_t at, struct heap_who *who)
{
    const struct view *v = &heap->view;
    uint64_t time, stack, thread, cpu;

    if (!view_read(v, heap->target, at, VIEW_track_time, &time) || time == 0 ||
        !view_read(v, heap->target, at, VIEW_track_stack, &stack) ||
        !view_read(v, heap->target, at, VIEW_track_thread, &thread) ||
        !view_read(v, heap->target, at, VIEW_track_cpu, &cpu))
        return;
    *who = (struct heap_who){
        .known = true, .time = time, .thread = (uint32_t)thread, .cpu = (uint32_t)cpu};
    who->depth = objects_stack(heap, (uint32_t)stack, who->frames);
}

bool heap_has_tracks(const struct heap *heap, const struct heap_cache *cache)
{
    return (cache->flags & view_value(&heap->view, VIEW_STOOK_CACHE_DEBUG_USER)) != 0;
}

static void objects_track(struct heap *heap, struct heap_what *what)
{
    const struct view *v = &heap->view;
    uint64_t head = objects_column(heap, what->cache, what->slab, HEAP_TRACK, what->index), value;
    bool tracks = heap_has_tracks(heap, what->cache);

    if (!head || !(what->cache->flags & (view_value(v, VIEW_STOOK_CACHE_DEBUG_USER) |
                                         view_value(v, VIEW_STOOK_CACHE_DEBUG_RED_ZONE))))
        return;
    if (view_read(v, heap->target, head, VIEW_track_head_requested, &value))
        what->requested = (uint32_t)value;
    for (unsigned i = 0; i < 2 && tracks; i++)
        objects_who(heap,
                    head + view_size(v, VIEW_track_head) + (uint64_t)i * view_size(v, VIEW_track),
                    &what->who[i]);
}

/* ---- whose an address is ---------------------------------------------------------------------- */

const struct heap_slab *heap_slab_at(const struct heap *heap, uint64_t address)
{
    uint64_t page = (address - heap->base) >> 12;
    size_t n = target_rows_to(heap->slab, heap->slabs, page, page);

    return n > 0 && heap->slab[n - 1].page + (1u << heap->slab[n - 1].order) > page
               ? &heap->slab[n - 1]
               : NULL;
}

static const struct heap_large *objects_large(const struct heap *heap, uint64_t address)
{
    size_t n = target_rows_to(heap->large, heap->larges, address, address);

    return n > 0 && address - heap->large[n - 1].address < heap->large[n - 1].bytes
               ? &heap->large[n - 1]
               : NULL;
}

static void objects_state(struct heap *heap, struct heap_what *what)
{
    uint8_t *state = target_need(malloc(HEAP_OBJECTS));
    const struct heap_sheaf_object *in = heap_in_sheaf(heap, what->start);

    what->state =
        heap_states(heap, what->slab, state) ? (enum heap_state)state[what->index] : HEAP_UNKNOWN;
    if (in && what->state != HEAP_LIVE)
        what->place = in->place;
    free(state);
}

static void objects_owner(struct heap *heap, struct heap_what *what)
{
    what->group = objects_number(heap, what->cache, what->slab, HEAP_GROUP, what->index);
    what->tag = objects_number(heap, what->cache, what->slab, HEAP_TAG, what->index);
    if (what->cache->shadow)
        heap_sample_describe(
            heap, objects_column(heap, what->cache, what->slab, HEAP_TRACK, what->index), what);
    else
        objects_track(heap, what);
}

static void objects_in_slab(struct heap *heap, uint64_t address, struct heap_what *what)
{
    const struct heap_slab *slab = what->slab;
    const struct heap_cache *cache = heap_cache_at(heap, slab->cache);
    uint64_t first = heap_object(heap, cache, slab, 0), index;

    what->cache = cache;
    what->kind = HEAP_BETWEEN;
    if (address < first || (index = (address - first) / cache->stride) >= slab->objects)
        return;
    what->kind = HEAP_OBJECT;
    what->index = (uint32_t)index;
    what->start = heap_object(heap, cache, slab, what->index);
    what->bytes = cache->object_size;
    objects_state(heap, what);
    objects_owner(heap, what);
}

/* {owner, tag} of a large object, where something was ever said of one (src/large/arena_note.h). */
static void objects_note(struct heap *heap, const struct heap_large *large, struct heap_what *what)
{
    const struct view *v = &heap->view;
    uint64_t block = (large->address - heap->base) >> 21, page = (large->address >> 12) & 511;
    uint64_t at = heap->own->header + block * view_value(v, VIEW_BLOCK_HEADER) +
                  view_value(v, VIEW_block_span_note);
    uint32_t note[2];

    if (large->address % (1 << 21) != 0 || large->bytes % (1 << 21) != 0)
        at = heap->own->meta + (block + 1) * view_value(v, VIEW_BLOCK_META) -
             view_value(v, VIEW_BLOCK_NOTES) + page * view_value(v, VIEW_ARENA_NOTE);
    if (!target_take(heap->target, at, &note))
        return;
    what->group = note[0];
    what->tag = note[1];
}

/* False: the address is not in the guard's pool. */
static bool objects_guarded(struct heap *heap, uint64_t address, struct heap_what *what)
{
    const struct view *v = &heap->view;
    uint64_t guard = view_value(v, VIEW_at_guard), base, bytes, page, slot, word, start, size,
             cache, at, kept = view_value(v, VIEW_GUARD_STATE_BITS);

    if (!view_knows(v, VIEW_at_guard) ||
        !view_read(v, heap->target, guard, VIEW_guard_base, &base) ||
        !view_read(v, heap->target, guard, VIEW_guard_bytes, &bytes) || address - base >= bytes ||
        !view_read(v, heap->target, guard, VIEW_guard_page, &page) || page == 0 ||
        !view_read(v, heap->target, guard, VIEW_guard_slot, &slot))
        return false;
    what->kind = HEAP_NOTHING;
    at = (address - base) / page;
    if (at % 2 == 0)
        return true; /* in a page between two */
    at = slot + at / 2 * view_size(v, VIEW_guarded);
    if (!view_read(v, heap->target, at, VIEW_guarded_word, &word) ||
        !view_read(v, heap->target, at, VIEW_guarded_object, &start) ||
        !view_read(v, heap->target, at, VIEW_guarded_size, &size) ||
        !view_read(v, heap->target, at, VIEW_guarded_cache, &cache))
        return true;
    word &= (1u << kept) - 1;
    if (word != view_value(v, VIEW_GUARD_LIVE) && word != view_value(v, VIEW_GUARD_FREED))
        return true;
    what->kind = HEAP_GUARDED;
    what->start = start;
    what->bytes = size;
    what->state = word == view_value(v, VIEW_GUARD_LIVE) ? HEAP_LIVE : HEAP_FREE;
    for (size_t i = 0; i < heap->caches; i++)
        if (heap->cache[i].address == cache)
            what->cache = &heap->cache[i];
    objects_who(heap, at + view_value(v, VIEW_guarded_allocated), &what->who[0]);
    objects_who(heap, at + view_value(v, VIEW_guarded_freed), &what->who[1]);
    return true;
}

void heap_whatis(struct heap *heap, uint64_t address, struct heap_what *what)
{
    const struct heap_large *large;

    memset(what, 0, sizeof(*what));
    what->kind = HEAP_ELSEWHERE;
    if (objects_guarded(heap, address, what))
        return;
    if (address < heap->begin || address >= heap->end)
        return;
    what->kind = HEAP_NOTHING;
    what->slab = heap_slab_at(heap, address);
    if (what->slab) {
        objects_in_slab(heap, address, what);
    } else if ((large = objects_large(heap, address))) {
        what->kind = HEAP_LARGE;
        what->start = large->address;
        what->bytes = large->bytes;
        what->state = HEAP_LIVE;
        objects_note(heap, large, what);
    }
}

void heap_describe(struct heap *heap, const struct heap_slab *slab, uint32_t index,
                   uint64_t address, struct heap_what *what)
{
    const struct heap_large *large = slab ? NULL : objects_large(heap, address);

    memset(what, 0, sizeof(*what));
    what->state = HEAP_LIVE;
    if (large) {
        what->kind = HEAP_LARGE;
        what->start = large->address;
        what->bytes = large->bytes;
        objects_note(heap, large, what);
    } else if (slab) {
        what->kind = HEAP_OBJECT;
        what->cache = heap_cache_at(heap, slab->cache);
        what->slab = slab;
        what->index = index;
        what->start = heap_object(heap, what->cache, slab, index);
        what->bytes = what->cache->object_size;
        objects_owner(heap, what);
    }
}

/* ---- call sites ------------------------------------------------------------------------------- */

bool heap_site(struct heap *heap, uint32_t tag, struct heap_site *site)
{
    const struct view *v = &heap->view;
    unsigned shift = (unsigned)view_value(v, VIEW_TAG_CHUNK_SHIFT),
             row = (unsigned)view_value(v, VIEW_ROWS_LARGE);
    uint64_t chunk, record, kind, value, file = 0, function = 0;

    *site = (struct heap_site){0};
    if (tag & HEAP_SAMPLED)
        return heap_sample_site(heap, tag & ~HEAP_SAMPLED, site);
    if (tag == 0 || !view_knows(v, VIEW_at_tag_chunks) || shift == 0 ||
        tag >> shift >= view_value(v, VIEW_TAG_CHUNKS) ||
        !target_take(heap->target, view_value(v, VIEW_at_tag_chunks) + (uint64_t)(tag >> shift) * 8,
                     &chunk) ||
        chunk == 0)
        return false;
    record = chunk + (((uint64_t)heap->rows + 1) << row) +
             (uint64_t)(tag & ((1u << shift) - 1)) * view_size(v, VIEW_tag_record);
    if (!view_read(v, heap->target, record, VIEW_tag_record_kind, &kind) || kind == 0 ||
        !view_read(v, heap->target, record, VIEW_tag_record_value, &value))
        return false;
    if (kind == view_value(v, VIEW_TAG_SITE)) {
        site->line = value;
        (void)view_read(v, heap->target, record, VIEW_tag_record_file, &file);
        (void)view_read(v, heap->target, record, VIEW_tag_record_function, &function);
        return file && target_read_text(heap->target, file, site->file, sizeof(site->file)) &&
               (!function ||
                target_read_text(heap->target, function, site->function, sizeof(site->function)));
    }
    site->frames[0] = value;
    site->depth = 1;
    return true;
}
