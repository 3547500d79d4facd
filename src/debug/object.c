/* SPDX-License-Identifier: MIT */
/*
 * object.c - the state word of a debug cache's object (object.h): each call changes it by compare-and-swap, checks
 * zones and poison against the old state, and writes those of the new one.
 */
#include "debug/object.h"

#include "base/context.h"
#include "base/lock.h"
#include "base/placed.h"
#include "base/report.h"
#include "debug/fail.h"
#include "debug/gone.h"
#include "debug/report.h"
#include "debug/tools.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static __thread struct debug_asks object_asks __attribute__((tls_model("initial-exec")));

struct debug_asks debug_ask(struct debug_asks asks)
{
    struct debug_asks before = object_asks;

    object_asks = asks;
    return before;
}

/* What the running call says of an object of this cache that is allocated (`freed` NULL), or of this one. */
static struct debug_asks object_asked(const struct stook_cache *cache, const void *freed)
{
    return cache->flags & CACHE_SIZED && object_asks.freed == freed
               ? object_asks
               : (struct debug_asks){.call = DEBUG_CALL_ANY};
}

size_t debug_asked(const struct stook_cache *cache)
{
    return object_asked(cache, NULL).size;
}

size_t debug_asked_free(const struct stook_cache *cache, const void *object)
{
    return object_asked(cache, object).size;
}

/* An object whose word says BUSY, or of a thread that validates. */
struct object {
    const struct stook_cache *cache;
    struct slab *slab;
    uint32_t index, word;
    uint8_t *at;
};

static struct object object_of(const struct stook_cache *cache, const struct slab *slab,
                               uint32_t index)
{
    return (struct object){.cache = cache,
                           .slab = (struct slab *)(uintptr_t)slab,
                           .index = index,
                           .at = slab_object(cache, slab, index)};
}

/* Of a pointer that is known to be an object's. */
static struct object object_at(const struct stook_cache *cache, const void *pointer)
{
    uint32_t index;
    const struct slab *slab = slab_find(cache, pointer, &index);

    return object_of(cache, slab, index);
}

static size_t object_requested(const struct object *object)
{
    uint32_t size = __atomic_load_n(
        &track_head(object->cache, object->slab, object->index)->requested, __ATOMIC_RELAXED);

    return size == 0 || size > object->cache->object_size ? object->cache->object_size : size;
}

static void object_request(const struct object *object, size_t size)
{
    __atomic_store_n(&track_head(object->cache, object->slab, object->index)->requested,
                     size < object->cache->object_size ? (uint32_t)size : 0, __ATOMIC_RELAXED);
}

static struct debug_finding object_finding(const struct object *object, enum debug_what what,
                                           enum debug_done done, uint64_t where)
{
    return (struct debug_finding){.what = what,
                                  .done = done,
                                  .cache = object->cache,
                                  .slab = object->slab,
                                  .object = object->at,
                                  .index = object->index,
                                  .at = object->at,
                                  .requested = object_requested(object),
                                  .where = where};
}

/* ---- bytes ---------------------------------------------------------------------------------- */

/* Bytes of one value that an object's state demands. */
struct object_bytes {
    enum debug_what what; /* a finding where they differ */
    uint8_t *from;
    size_t n;
    uint8_t value;
};

/* Those of a state; their number.  Of a live object none is its user's. */
static unsigned object_bytes(const struct object *object, enum object_state state,
                             struct object_bytes to[3])
{
    const struct stook_cache *cache = object->cache;
    bool is_free = state == OBJECT_FREE;
    uint8_t zone = is_free ? ZONE_FREE : ZONE_LIVE;
    size_t left = zone_left(cache), right = is_free ? cache->object_size : object_requested(object);
    unsigned n = 0;

    if (debug_of(cache) & DEBUG_Z) {
        to[n++] = (struct object_bytes){DEBUG_LEFT_ZONE, object->at - left, left, zone};
        to[n++] = (struct object_bytes){DEBUG_RIGHT_ZONE, object->at + right,
                                        zone_end(cache) - right, zone};
    }
    if (is_free && zone_poisons(cache))
        to[n++] = (struct object_bytes){DEBUG_POISON, object->at, cache->object_size, POISON_FREE};
    return n;
}

static void object_write(const struct object *object, enum object_state state)
{
    struct object_bytes bytes[3];

    for (unsigned n = object_bytes(object, state, bytes); n > 0; n--)
        memset(bytes[n - 1].from, bytes[n - 1].value, bytes[n - 1].n);
}

/* The number of differences; with `restores`, each is reported before its bytes are restored. */
static unsigned object_differs(const struct object *object, enum object_state state, bool restores,
                               uint64_t where)
{
    struct object_bytes bytes[3];
    unsigned n = object_bytes(object, state, bytes), errors = 0;

    for (unsigned i = 0; i < n; i++) {
        struct debug_finding finding;
        struct zone_change change;
        if (__builtin_expect(
                !zone_differs(bytes[i].from, bytes[i].n, ZONE_WORD(bytes[i].value), &change), 1))
            continue;
        errors++;
        if (!restores)
            continue;
        finding = object_finding(object, bytes[i].what, DEBUG_RESTORED, where);
        finding.at = change.at;
        finding.changed = change.bytes;
        finding.expected = change.expected;
        (void)debug_report(&finding);
        memset(change.at, change.expected, change.bytes);
    }
    return errors;
}

static unsigned object_check_bytes(const struct object *object, enum object_state state,
                                   uint64_t where)
{
    size_t left = zone_left(object->cache),
           from = state == OBJECT_FREE ? 0 : object_requested(object);

    tools_open(object->at - left, left);
    tools_open(object->at + from, zone_end(object->cache) - from);
    return object_differs(object, state, true, where);
}

void object_init(const struct stook_cache *cache, struct slab *slab, uint32_t index)
{
    struct object object = object_of(cache, slab, index);

    memset(track_head(cache, slab, index), 0, cache->layout.column[0][LAYOUT_TRACK].element);
    object_write(&object, OBJECT_FREE);
}

void object_check_free(const struct stook_cache *cache, const struct slab *slab, uint32_t index)
{
    struct object object = object_of(cache, slab, index);

    (void)object_check_bytes(&object, OBJECT_FREE, 0);
}

/* ---- the word ------------------------------------------------------------------------------- */

/*
 * BUSY, and in this thread's hands; the state that it was in.  Unless that is `wanted`, nothing has changed.  A
 * handler may have interrupted the thread that has locked it: it goes on with a live one, whose zones that
 * thread writes once more, and leaves a free one alone.
 */
static enum object_state object_begin(struct object *object, enum object_state wanted)
{
    _Atomic uint32_t *at = object_word(object->cache, object->slab, object->index);
    uint32_t word = atomic_load_explicit(at, memory_order_acquire);
    bool nested = context_self()->depth > 0;

    for (unsigned turn = 0;;) {
        enum object_state state = (enum object_state)(word & OBJECT_STATE);
        if (state != wanted)
            return state;
        if (word & OBJECT_LOCKED && nested && wanted == OBJECT_FREE)
            return OBJECT_BUSY;
        if (word & OBJECT_LOCKED && !nested) {
            lock_pause(turn++);
            word = atomic_load_explicit(at, memory_order_acquire);
            continue;
        }
        if (atomic_compare_exchange_weak_explicit(
                at, &word, (word & ~(uint32_t)(OBJECT_STATE | OBJECT_LOCKED)) | OBJECT_BUSY,
                memory_order_acq_rel, memory_order_acquire)) {
            object->word = word;
            return state;
        }
    }
}

static void object_end(const struct object *object, enum object_state state, enum debug_call call)
{
    uint32_t word = object->word & ~(uint32_t)(OBJECT_SEQUENCE - 1);

    word += OBJECT_SEQUENCE;
    /* Release: its bytes. */
    atomic_store_explicit(object_word(object->cache, object->slab, object->index),
                          word | (uint32_t)call << OBJECT_CALL_SHIFT | state, memory_order_release);
}

static enum debug_call object_call(uint32_t word)
{
    return (enum debug_call)((word & OBJECT_CALL) >> OBJECT_CALL_SHIFT);
}

/* The word that is locked: one thread validates at a time. */
static _Atomic(_Atomic uint32_t *) object_locked;

SECOND_TEXT void object_child(void)
{
    _Atomic uint32_t *word = atomic_exchange(&object_locked, NULL);

    if (word)
        (void)atomic_fetch_and(word, ~(uint32_t)OBJECT_LOCKED);
}

unsigned object_validate(const struct stook_cache *cache, const struct slab *slab, uint32_t index)
{
    struct object object = object_of(cache, slab, index);
    _Atomic uint32_t *at = object_word(cache, slab, index);
    uint32_t word = atomic_load_explicit(at, memory_order_acquire), locked;
    enum object_state state = (enum object_state)(word & OBJECT_STATE);
    unsigned errors;

    if (state == OBJECT_BUSY || word & OBJECT_LOCKED)
        return 0;
    if (tools_watch) /* which sees writes when they are made */
        return 0;
    /* Without the lock first: where all is well no thread has to wait for it. */
    if (object_differs(&object, state, false, 0) == 0)
        return 0;
    locked = word | OBJECT_LOCKED;
    atomic_store(&object_locked, at);
    if (!atomic_compare_exchange_strong_explicit(at, &word, locked, memory_order_acq_rel,
                                                 memory_order_acquire)) {
        atomic_store(&object_locked, NULL);
        return 0; /* it was on its way */
    }
    errors = object_check_bytes(&object, state, 0);
    /* A handler may have freed it meanwhile; its bytes are those of a live one then, in part. */
    if (!atomic_compare_exchange_strong_explicit(at, &locked, word, memory_order_release,
                                                 memory_order_relaxed) &&
        object_begin(&object, OBJECT_FREE) == OBJECT_FREE) {
        object_write(&object, OBJECT_FREE);
        object_end(&object, OBJECT_FREE, DEBUG_CALL_ANY);
    }
    atomic_store(&object_locked, NULL);
    return errors;
}

/* ---- out ------------------------------------------------------------------------------------ */

bool debug_begin(const struct stook_cache *cache, size_t n, uint64_t where)
{
    if (gone_is(cache)) {
        gone_report(cache, NULL, where);
        errno = ENOMEM;
        return false;
    }
    if ((debug_of(cache) & DEBUG_A) && where && fail_now(n * cache->object_size)) {
        /* malloc tries no larger class in that case, and says ENOMEM. */
        errno = cache->flags & CACHE_MALLOC ? EDQUOT : ENOMEM;
        return false;
    }
    return true;
}

static void object_trace(const struct object *object, const char *call, uint64_t where)
{
    if (debug_of(object->cache) & DEBUG_T)
        report_warn("TRACE %s %s %p size=%zu used=%u of %u from %#llx", object->cache->name, call,
                    (void *)object->at, object_requested(object),
                    slab_inuse(atomic_load_explicit(&object->slab->state, memory_order_relaxed)),
                    slab_objects(object->cache,
                                 atomic_load_explicit(&object->slab->state, memory_order_relaxed)),
                    (unsigned long long)(where >> 1));
}

bool debug_take(const struct stook_cache *cache, void *pointer, uint64_t where)
{
    struct debug_asks asks = object_asked(cache, NULL);
    struct object object = object_at(cache, pointer);
    enum object_state state;

    state = object_begin(&object, OBJECT_FREE);
    if (__builtin_expect(state != OBJECT_FREE, 0)) {
        struct debug_finding finding =
            object_finding(&object, DEBUG_LINK, DEBUG_QUARANTINED, where);
        finding.text = "it is in use, and its slab's freelist has it";
        if (state == OBJECT_LIVE || state == OBJECT_DEFERRED)
            (void)debug_report(&finding);
        return false;
    }
    (void)object_check_bytes(&object, OBJECT_FREE, where);
    object_request(&object, asks.size);
    object_write(&object, OBJECT_LIVE);
    if (zone_poisons(cache))
        memset(pointer, POISON_FRESH, object_requested(&object));
    track_set(cache, object.slab, object.index, TRACK_ALLOC, where);
    tools_alloc(cache, pointer, object_requested(&object));
    object_end(&object, OBJECT_LIVE, asks.call);
    object_trace(&object, "alloc", where);
    return true;
}

/* ---- back ----------------------------------------------------------------------------------- */

/* The object of a pointer that a user frees or resizes; false: it is none of the cache, which is reported. */
static bool object_find(const struct stook_cache *cache, const void *pointer, struct object *object)
{
    uint32_t index;
    const struct slab *slab = slab_of(cache, pointer, &index);

    if (slab)
        *object = object_of(cache, slab, index);
    return slab != NULL;
}

/* By another call than the one that belongs to its allocation, or with another size.  The object is freed. */
static void object_check_call(const struct object *object)
{
    struct debug_asks asks = object_asked(object->cache, object->at);
    enum debug_call call = object_call(object->word);
    struct debug_finding finding = object_finding(object, DEBUG_MISMATCH, DEBUG_ACCEPTED, 0);
    static const char names[][2][20] = {
        [DEBUG_CALL_MALLOC] = {"malloc", "free"},
        [DEBUG_CALL_NEW] = {"operator new", "operator delete"},
        [DEBUG_CALL_NEW_ARRAY] = {"operator new[]", "operator delete[]"}};
    char text[80];

    if (asks.call != DEBUG_CALL_ANY && call != DEBUG_CALL_ANY && asks.call != call) {
        (void)snprintf(text, sizeof(text), "allocated by %s, freed by %s", names[call][0],
                       names[asks.call][1]);
        finding.text = text;
        (void)debug_report(&finding);
    } else if (asks.size != 0 && asks.size != object_requested(object)) {
        finding.what = DEBUG_SIZE;
        finding.value = asks.size;
        (void)debug_report(&finding);
    }
}

/* False: the object is not to be freed. */
static bool object_free(const struct stook_cache *cache, void *pointer, enum object_state to)
{
    struct object object;
    enum object_state state;

    if (gone_is(cache)) {
        gone_report(cache, pointer, 0);
        return false;
    }
    if (!object_find(cache, pointer, &object))
        return false;
    state = object_begin(&object, OBJECT_LIVE);
    if (__builtin_expect(state != OBJECT_LIVE, 0)) {
        struct debug_finding finding = object_finding(
            &object, state == OBJECT_BUSY ? DEBUG_AT_ONCE : DEBUG_DOUBLE_FREE, DEBUG_REFUSED, 0);
        (void)debug_report(&finding);
        return false;
    }
    object_check_call(&object);
    (void)object_check_bytes(&object, OBJECT_LIVE, 0);
    object_trace(&object, "free", 0);
    if (to == OBJECT_FREE) {
        object_write(&object, OBJECT_FREE);
        tools_free(cache, pointer);
    }
    track_set(cache, object.slab, object.index, TRACK_FREE, 0);
    object_end(&object, to, object_call(object.word));
    return true;
}

void debug_free(const struct stook_cache *cache, void **objects, size_t n)
{
    int saved = errno;

    for (size_t i = 0; i < n; i++)
        if (objects[i] && !object_free(cache, objects[i], OBJECT_FREE))
            objects[i] = NULL;
    errno = saved;
}

void debug_defer(const struct stook_cache *cache, void **object)
{
    int saved = errno;

    if (*object && !object_free(cache, *object, OBJECT_DEFERRED))
        *object = NULL;
    errno = saved;
}

void debug_deferred(const struct stook_cache *cache, void *pointer)
{
    struct object object = object_at(cache, pointer);

    if (object_begin(&object, OBJECT_DEFERRED) != OBJECT_DEFERRED)
        return;
    (void)object_check_bytes(&object, OBJECT_LIVE, 0);
    object_write(&object, OBJECT_FREE);
    tools_free(cache, pointer);
    object_end(&object, OBJECT_FREE, object_call(object.word));
}

/* ---- in use --------------------------------------------------------------------------------- */

size_t debug_usable(const struct stook_cache *cache, const void *pointer)
{
    struct object object;

    if (!(debug_of(cache) & DEBUG_Z))
        return slab_usable(cache);
    object = object_at(cache, pointer);
    return object_requested(&object);
}

bool debug_live(const struct stook_cache *cache, const void *pointer, const char *call)
{
    struct debug_finding finding;
    struct object object;

    if (!object_find(cache, pointer, &object))
        return false;
    if (debug_is_live(cache, object.slab, object.index))
        return true;
    finding = object_finding(&object, DEBUG_REALLOC_FREED, DEBUG_REFUSED, 0);
    finding.call = call;
    (void)debug_report(&finding);
    return false;
}

void debug_resize(const struct stook_cache *cache, void *pointer, size_t size)
{
    struct object object = object_at(cache, pointer);
    size_t had;

    if (object_begin(&object, OBJECT_LIVE) != OBJECT_LIVE)
        return;
    (void)object_check_bytes(&object, OBJECT_LIVE, 0);
    had = object_requested(&object);
    object_request(&object, size);
    object_write(&object, OBJECT_LIVE);
    tools_resize(cache, pointer, had, object_requested(&object));
    object_end(&object, OBJECT_LIVE, object_call(object.word));
}
