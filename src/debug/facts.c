/* SPDX-License-Identifier: MIT */
/*
 * facts.c - gathers what a report shows: the sentence, the object's tracks, the bytes around it, symbols. form_text.c
 * and form_json.c write it.
 */
#include "debug/facts.h"

#include "base/raw.h"
#include "debug/pages_track.h"
#include "debug/zone.h"

#include <string.h>

enum {
    FACTS_OWN = 14,    /* frames of the library's, at most, before the program's */
    FACTS_MOST = 512,  /* bytes of a piece that is shown whole ... */
    FACTS_PART = 64,   /* ... and of others that are shown, */
    FACTS_BEFORE = 16, /* from so many before the first changed one */
};

const char *facts_name(enum debug_what what)
{
    static const char names[][16] = {
        [DEBUG_RIGHT_ZONE] = "right_zone",
        [DEBUG_LEFT_ZONE] = "left_zone",
        [DEBUG_POISON] = "poison",
        [DEBUG_LINK] = "link",
        [DEBUG_MARK] = "mark",
        [DEBUG_COLUMN] = "column",
        [DEBUG_COUNT] = "count",
        [DEBUG_DOUBLE_FREE] = "double_free",
        [DEBUG_INTERIOR] = "interior",
        [DEBUG_WRONG_CACHE] = "wrong_cache",
        [DEBUG_FOREIGN] = "foreign",
        [DEBUG_LIBRARY] = "library",
        [DEBUG_NO_OBJECT] = "no_object",
        [DEBUG_AT_ONCE] = "at_once",
        [DEBUG_STILL_OUT] = "still_out",
        [DEBUG_SIZE] = "size",
        [DEBUG_MISMATCH] = "mismatch",
        [DEBUG_DESTROYED] = "destroyed",
        [DEBUG_REALLOC_FREED] = "realloc_freed",
        [DEBUG_GUARD] = "guard",
    };

    _Static_assert(sizeof(names) / sizeof(names[0]) == DEBUG_WHATS, "each has a name");
    return (unsigned)what < DEBUG_WHATS ? names[what] : "?";
}

const char *facts_done(const struct facts *facts)
{
    static const char names[][16] = {
        [DEBUG_RESTORED] = "restored", [DEBUG_QUARANTINED] = "quarantined",
        [DEBUG_REFUSED] = "refused",   [DEBUG_ACCEPTED] = "accepted",
        [DEBUG_ABORTED] = "aborted",   [DEBUG_PASSED] = "passed",
        [DEBUG_OPENED] = "opened",
    };

    return names[facts->goes_on ? facts->finding->done : DEBUG_ABORTED];
}

bool facts_changed(const struct facts *facts, const uint8_t *byte)
{
    const struct debug_finding *f = facts->finding;
    size_t from = (size_t)(byte - (const uint8_t *)f->at);

    return f->what <= DEBUG_POISON && byte >= (const uint8_t *)f->at &&
           from < (f->changed ? f->changed : 1) && *byte != f->expected;
}

/* `most`: the size of a piece that is shown whole. */
static void facts_add(struct facts *facts, const char *name, const uint8_t *start, size_t size,
                      size_t most)
{
    const uint8_t *at = facts->finding->at;
    size_t from = 0;

    if (size > most && facts->finding->what <= DEBUG_POISON && at >= start && at < start + size)
        from = (size_t)(at - start) < FACTS_BEFORE
                   ? 0
                   : ((size_t)(at - start) - FACTS_BEFORE) & ~(size_t)15;
    if (size > most)
        size = size - from < FACTS_PART ? size - from : FACTS_PART;
    if (size > 0)
        facts->bytes[facts->pieces++] = (struct facts_bytes){name, start + from, size};
}

/*
 * The object with its red zones: of findings about bytes, and of debug caches.  Others show no contents of the
 * program's memory.
 */
static void facts_bytes(struct facts *facts)
{
    const struct debug_finding *f = facts->finding;
    const uint8_t *object = f->object;
    bool zones = facts->owner && debug_of(facts->owner) & DEBUG_Z;
    size_t left = zones ? zone_left(facts->owner) : 0, own = facts->size, end;

    if (!object || f->what == DEBUG_STILL_OUT ||
        !(f->what <= DEBUG_COLUMN || (facts->owner && debug_of(facts->owner))))
        return;
    if (facts->owner && f->what == DEBUG_RIGHT_ZONE && !zones) /* a canary (harden/) */
        return;
    if (!facts->owner) { /* whole pages */
        facts_add(facts, "Object", object, facts->requested, 0);
        if (f->what == DEBUG_RIGHT_ZONE)
            facts_add(facts, "Redzone", object + facts->requested, own - facts->requested, 0);
        return;
    }
    if (zones && f->what == DEBUG_RIGHT_ZONE && f->expected == ZONE_LIVE)
        own = facts->requested; /* the slack behind it belongs to the zone */
    end = zones ? zone_end(facts->owner) : own;
    if (f->what == DEBUG_POISON &&
        (facts->owner->flags & STOOK_CACHE_QUARANTINE)) /* up to the next object */
        end = facts->owner->layout.room +
              cache_canary(facts->owner->flags, facts->owner->object_size);
    facts_add(facts, "Redzone", object - left, left, FACTS_MOST);
    facts_add(facts, "Object", object, own, FACTS_MOST);
    facts_add(facts, "Redzone", object + own, end - own, FACTS_MOST);
}

/* A call and its frames, which become symbols; those of the library's own files go later. */
static void facts_call(struct facts *facts, enum facts_stack which, const struct track *track)
{
    uint64_t frames[DEPOT_DEPTH], now = raw_clock();
    unsigned depth = depot_get(track->stack, frames);

    if (track->time == 0)
        return;
    facts->stack[which].known = true;
    facts->stack[which].age = now > track->time ? now - track->time : 0;
    facts->stack[which].thread = track->thread;
    facts->stack[which].cpu = track->cpu;
    facts->stack[which].first = facts->symbols;
    for (unsigned i = 0; i < depth; i++)
        if (frames[i] & DEPOT_SITE)
            facts->stack[which].site =
                (const struct stook_site *)(uintptr_t)(frames[i] & ~DEPOT_SITE);
        else
            facts->symbol[facts->symbols++].address = frames[i];
    facts->stack[which].depth = facts->symbols - facts->stack[which].first;
}

/* The calls that a program makes, by which a static library's frames end. */
static bool facts_is_call(const char *name)
{
    static const char calls[][16] = {"free",   "malloc",    "calloc",        "realloc",
                                     "cfree",  "memalign",  "aligned_alloc", "posix_memalign",
                                     "valloc", "free_sized"};

    for (unsigned i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
        if (strcmp(name, calls[i]) == 0)
            return true;
    return strncmp(name, "stook_", 6) == 0 || strncmp(name, "_Znw", 4) == 0 ||
           strncmp(name, "_Zna", 4) == 0 || strncmp(name, "_Zdl", 4) == 0 ||
           strncmp(name, "_Zda", 4) == 0;
}

/* A stack begins behind the frames of the library's: up to a call of the program's, where there is one. */
static void facts_trim(struct facts *facts, enum facts_stack which)
{
    const struct symbol *symbol = &facts->symbol[facts->stack[which].first];
    unsigned depth = facts->stack[which].depth, own = 0;

    for (unsigned i = 0; i < depth && i < FACTS_OWN; i++)
        if (strncmp(symbol[i].module, "libstook", 8) == 0 || facts_is_call(symbol[i].name))
            own = i + 1;
    if (own < depth) {
        facts->stack[which].first += own;
        facts->stack[which].depth -= own;
    }
}

static void facts_tracks(struct facts *facts)
{
    const struct debug_finding *f = facts->finding;
    struct track track[TRACKS] = {0}, found = {.thread = facts->thread, .time = 1};

    if (!facts->owner)
        (void)pages_track_get(f->object ? f->object : f->at, track);
    for (unsigned which = 0; which < TRACKS; which++) {
        if (f->track[which])
            track[which] = *f->track[which];
        else if (facts->owner && f->object)
            (void)track_get(facts->owner, f->slab, f->index, which, &track[which]);
        facts_call(facts, which, &track[which]);
    }
    found.stack = depot_here(f->where);
    facts_call(facts, FACTS_FOUND, &found);
    symbols_find(facts->symbol, facts->symbols);
    for (unsigned which = 0; which < FACTS_STACKS; which++)
        facts_trim(facts, which);
}

static size_t facts_requested(const struct facts *facts)
{
    const struct debug_finding *finding = facts->finding;
    const struct track_head *head = NULL;

    if (finding->requested)
        return finding->requested;
    if (finding->object && facts->owner && facts->owner->flags & CACHE_DEBUG)
        head = track_head(facts->owner, finding->slab, finding->index);
    return head && head->requested ? head->requested : facts->size;
}

void facts_gather(struct facts *facts, const struct debug_finding *finding)
{
    memset(facts, 0, offsetof(struct facts, symbol));
    facts->symbols = 0;
    facts->finding = finding;
    facts->thread = (uint32_t)raw_gettid();
    facts->process = (uint32_t)raw_getpid();
    if (finding->slab) {
        facts->owner = slab_cache_of(slab_base(finding->slab));
        if (!facts->owner && finding->what <= DEBUG_COLUMN) /* the last check of a slab that goes */
            facts->owner = finding->cache;
        facts->word = atomic_load_explicit(&finding->slab->state, memory_order_relaxed);
    }
    facts->size = finding->size ? finding->size : facts->owner ? facts->owner->object_size : 0;
    facts->requested = facts_requested(facts);
    facts_bytes(facts);
    facts_tracks(facts);
}
