/* SPDX-License-Identifier: MIT */
/*
 * quarantine.c - one FIFO queue of freed objects for each CPU.  The oldest object leaves when the queue has more bytes
 * than QUARANTINE_BYTES, so an object is not allocated again before so many bytes were freed on that CPU.
 *
 * A queue is an array of addresses.  It is not linked through the objects, so a write to a freed object cannot damage
 * it.
 *
 * A free only tries a queue's lock.  If another thread holds it, or a signal handler interrupted this thread while it
 * did, the free tries the next CPU's queue; it never waits.  Under the lock it takes out the objects that must leave,
 * QUARANTINE_LEAVE at most.  It drops the lock, checks these objects and frees them.  It repeats this until the queue
 * has room for its own object, since a large object may need the room of thousands of small ones.
 */
#include "harden/quarantine.h"

#include "base/context.h"
#include "base/placed.h"
#include "base/settings.h"
#include "cache/alloc.h"
#include "debug/object.h"
#include "harden/canary.h"
#include "os/topology.h"
#include "percpu/percpu.h"
#include "sheaf/slot.h"
#include "site/tag.h"
#include "slab/column.h"
#include "slab/node.h"
#include "slab/slab.h"
#include "slab/stat.h"
#include "slab/wrong.h"

#include <errno.h>
#include <string.h>

enum {
    QUARANTINE_BYTES = 256 << 10, /* that a queue may hold */
    QUARANTINE_ENTRIES = 8192,    /* objects a queue: a power of two */
    QUARANTINE_LEAVE = 16,        /* objects that leave while the lock is held once */
    QUARANTINE_TRIES = 4,         /* queues that a free tries */
};

struct quarantine {
    struct lock lock;    /* no rank: no other lock is taken under it */
    uint32_t first, end; /* numbers of the oldest entry and of the next one; they only grow */
    _Atomic size_t bytes;
    void *object[QUARANTINE_ENTRIES];
};

static _Atomic(struct quarantine *) quarantine_of[TOPOLOGY_CPUS_MAX + QUARANTINE_TRIES] LARGE_BSS;

/* No CPU has a queue from here on.  A child of a fork does not touch the pages behind. */
static unsigned quarantine_end(void)
{
    return percpu.rows + QUARANTINE_TRIES;
}

/* ---- the state of an object ------------------------------------------------------------------ */

static _Atomic uint16_t *quarantine_word(const struct stook_cache *cache, const struct slab *slab,
                                         uint32_t index)
{
    return (_Atomic uint16_t *)column_at(cache, slab, LAYOUT_TRACK, index);
}

/* The word of an object of this cache. */
static uint16_t quarantine_load(const struct stook_cache *cache, const void *object)
{
    uint32_t index;
    const struct slab *slab = slab_find(cache, object, &index);

    return atomic_load_explicit(quarantine_word(cache, slab, index), memory_order_relaxed);
}

static enum quarantine_state quarantine_state(uint16_t word)
{
    return (enum quarantine_state)(word & (QUARANTINE_STATES - 1));
}

/* Changes the state of an object; false: it was not in state `from`.  If `spare` is 0 or more, it is the new number of
 * bytes that the user did not request. */
static bool quarantine_change(const struct stook_cache *cache, const void *object,
                              enum quarantine_state from, enum quarantine_state to, long spare)
{
    uint32_t index;
    const struct slab *slab = slab_find(cache, object, &index);
    _Atomic uint16_t *word = quarantine_word(cache, slab, index);
    uint16_t old = atomic_load_explicit(word, memory_order_relaxed);
    unsigned next;

    do {
        if (quarantine_state(old) != from)
            return false;
        next = (spare < 0 ? old & ~(unsigned)(QUARANTINE_STATES - 1)
                          : (unsigned)spare * QUARANTINE_STATES) |
               to;
        /* Acquire and release: the last user's stores come before those of the next user. */
    } while (!atomic_compare_exchange_weak_explicit(word, &old, (uint16_t)next,
                                                    memory_order_acq_rel, memory_order_relaxed));
    return true;
}

static bool quarantine_move(const struct stook_cache *cache, const void *object,
                            enum quarantine_state from, enum quarantine_state to)
{
    return quarantine_change(cache, object, from, to, -1);
}

/* Bytes of an object's room that a user who requested `size` did not request; size 0: unknown.  QUARANTINE_SPARE stands
 * for that many or more. */
static long quarantine_spare(const struct stook_cache *cache, size_t size)
{
    size_t room = cache->layout.room;

    if (size == 0)
        size = cache->flags & CACHE_SIZED ? room : cache->object_size;
    if (size >= room)
        return 0;
    return room - size < QUARANTINE_SPARE ? (long)(room - size) : QUARANTINE_SPARE;
}

size_t quarantine_usable(const struct stook_cache *cache, const void *object)
{
    if (!(cache->flags & STOOK_CACHE_QUARANTINE))
        return slab_usable(cache);
    return cache->layout.room - quarantine_load(cache, object) / QUARANTINE_STATES;
}

void quarantine_resize(const struct stook_cache *cache, void *object, size_t size)
{
    long spare = quarantine_spare(cache, size);

    if (quarantine_change(cache, object, QUARANTINE_LIVE, QUARANTINE_LIVE, spare))
        canary_set(cache, object, cache->layout.room - (size_t)spare);
}

/* The state of free objects of this cache. */
static enum quarantine_state quarantine_unused(const struct stook_cache *cache)
{
    return canary_fills(cache) ? QUARANTINE_CLEAN : QUARANTINE_FREE;
}

static bool quarantine_give(const struct stook_cache *cache, void *object,
                            enum quarantine_state from)
{
    long spare = quarantine_spare(cache, debug_asked(cache));

    if (!quarantine_change(cache, object, from, QUARANTINE_LIVE, spare))
        return false;
    canary_set(cache, object, cache->layout.room - (size_t)spare);
    return true;
}

/* FREE or CLEAN -> LIVE.  `done`: what the caller does if the object was written to. */
static bool quarantine_take_as(const struct stook_cache *cache, void *object, enum debug_done done)
{
    enum quarantine_state had;

    if (!(cache->flags & STOOK_CACHE_QUARANTINE))
        return true;
    had = quarantine_state(quarantine_load(cache, object));
    if (had == QUARANTINE_CLEAN && !canary_check_filling(cache, object, done) &&
        done == DEBUG_QUARANTINED) {
        (void)quarantine_move(cache, object, QUARANTINE_CLEAN, QUARANTINE_LOST);
        return false;
    }
    return (had == QUARANTINE_CLEAN || had == QUARANTINE_FREE) &&
           quarantine_give(cache, object, had);
}

bool quarantine_take(const struct stook_cache *cache, void *object)
{
    return quarantine_take_as(cache, object, DEBUG_QUARANTINED);
}

void quarantine_take_reserved(const struct stook_cache *cache, void *object)
{
    (void)quarantine_take_as(cache, object, DEBUG_ACCEPTED);
}

void quarantine_slab_gone(const struct stook_cache *cache, const struct slab *slab)
{
    uint32_t objects =
        slab_objects(cache, atomic_load_explicit(&slab->state, memory_order_relaxed));

    for (uint32_t i = 0; i < objects; i++) {
        uint16_t word = atomic_load_explicit(quarantine_word(cache, slab, i), memory_order_relaxed);
        if (quarantine_state(word) == QUARANTINE_CLEAN)
            (void)canary_check_filling(cache, slab_object(cache, slab, i), DEBUG_ACCEPTED);
    }
}

/* Compares the size that a sized delete passed with the one that was requested.  The object is freed in any case. */
static void quarantine_check_size(const struct stook_cache *cache, const void *object)
{
    size_t said = debug_asked_free(cache, object), asked = quarantine_usable(cache, object);
    struct debug_finding finding = {.what = DEBUG_SIZE,
                                    .done = DEBUG_ACCEPTED,
                                    .cache = cache,
                                    .object = object,
                                    .at = object,
                                    .requested = asked,
                                    .value = said};

    if (__builtin_expect(said == 0 || said == asked, 1) ||
        cache->layout.room - asked >= QUARANTINE_SPARE)
        return;
    finding.slab = slab_find(cache, object, &finding.index);
    wrong_found(&finding);
}

void quarantine_check(const struct stook_cache *cache, void **objects, size_t n)
{
    for (size_t i = 0; i < n && (cache->flags & STOOK_CACHE_QUARANTINE); i++) {
        uint32_t index;
        if (!objects[i])
            continue;
        if (!slab_of(cache, objects[i], &index)) { /* no object of the cache: it was reported */
            objects[i] = NULL;
        } else if (!quarantine_move(cache, objects[i], QUARANTINE_LIVE, QUARANTINE_HELD)) {
            wrong_free(cache, objects[i], DEBUG_DOUBLE_FREE);
            objects[i] = NULL;
        } else if (!canary_check(cache, objects[i], quarantine_usable(cache, objects[i]))) {
            (void)quarantine_move(cache, objects[i], QUARANTINE_HELD, QUARANTINE_LOST);
            objects[i] = NULL;
        } else {
            quarantine_check_size(cache, objects[i]);
        }
    }
}

bool quarantine_is_live(const struct stook_cache *cache, const struct slab *slab, uint32_t index)
{
    return !(cache->flags & STOOK_CACHE_QUARANTINE) ||
           quarantine_state(atomic_load_explicit(quarantine_word(cache, slab, index),
                                                 memory_order_relaxed)) == QUARANTINE_LIVE;
}

bool quarantine_live(const struct stook_cache *cache, const void *object, const char *call)
{
    struct debug_finding finding = {.what = DEBUG_REALLOC_FREED,
                                    .done = DEBUG_REFUSED,
                                    .cache = cache,
                                    .object = object,
                                    .call = call};
    uint32_t index;

    if (!(cache->flags & STOOK_CACHE_QUARANTINE))
        return true;
    finding.slab = slab_of(cache, object, &index);
    if (!finding.slab)
        return false;
    if (quarantine_is_live(cache, finding.slab, index))
        return true;
    finding.index = index;
    finding.at = object;
    wrong_found(&finding);
    return false;
}

/* ---- filling --------------------------------------------------------------------------------- */

void quarantine_fill(const struct stook_cache *cache, void *const *objects, size_t n)
{
    bool held = cache->flags & STOOK_CACHE_QUARANTINE;

    for (size_t i = 0; i < n; i++) {
        if (!objects[i])
            continue;
        if (!held) {
            memset(objects[i], 0, slab_usable(cache));
            continue;
        }
        if (canary_fills(cache))
            canary_fill(cache, objects[i]);
        (void)quarantine_move(cache, objects[i], QUARANTINE_HELD, quarantine_unused(cache));
    }
}

/* ---- the queues ------------------------------------------------------------------------------ */

/* A queue that this thread has locked: this CPU's or one of the next.  NULL: all are locked, or out of memory. */
LOCK_UNCHECKED static struct quarantine *quarantine_enter(void)
{
    unsigned cpu = percpu_cpu() < 0 ? 0 : (unsigned)percpu_cpu();

    for (unsigned i = 0; i < QUARANTINE_TRIES; i++) {
        _Atomic(struct quarantine *) *at = &quarantine_of[cpu + i];
        struct quarantine *queue = atomic_load_explicit(at, memory_order_acquire);
        if (!queue && !(queue = tag_map(at, NULL, sizeof(*queue))))
            return NULL;
        if (lock_word_try(&queue->lock))
            return queue;
    }
    return NULL;
}

/* An object of the cache has come (1) or left (-1). */
static void quarantine_count(struct quarantine *queue, struct stook_cache *cache, int objects)
{
    size_t bytes = atomic_load_explicit(&queue->bytes, memory_order_relaxed);

    atomic_store_explicit(&queue->bytes, bytes + (size_t)objects * cache->layout.stride,
                          memory_order_relaxed);
    atomic_fetch_add_explicit(&cache->held, (uint32_t)objects, memory_order_relaxed);
}

static size_t quarantine_has(const struct quarantine *queue)
{
    return atomic_load_explicit(&queue->bytes, memory_order_relaxed);
}

/* Takes the objects out that must leave, QUARANTINE_LEAVE at most; returns how many.  Under the lock. */
static unsigned quarantine_due(struct quarantine *queue, size_t most, void **leaving)
{
    unsigned n = 0;

    while (n < QUARANTINE_LEAVE && queue->first != queue->end &&
           (quarantine_has(queue) > most || queue->end - queue->first >= QUARANTINE_ENTRIES)) {
        void *object = queue->object[queue->first++ % QUARANTINE_ENTRIES];
        struct stook_cache *cache = slab_cache_of(object);
        /* Keeps the object's cache from being destroyed until quarantine_hold() has freed the object. */
        atomic_fetch_add_explicit(&cache->pending, 1, memory_order_relaxed);
        quarantine_count(queue, cache, -1);
        leaving[n++] = object;
    }
    return n;
}

/* An object has left: HELD -> CLEAN or FREE.  False: it was written to, and is lost.  Without the lock. */
static bool quarantine_leave(const struct stook_cache *cache, void *object)
{
    bool lost =
        !(canary_fills(cache) ? canary_check_filling(cache, object, DEBUG_QUARANTINED)
                              : canary_check(cache, object, quarantine_usable(cache, object)));

    (void)quarantine_move(cache, object, QUARANTINE_HELD,
                          lost ? QUARANTINE_LOST : quarantine_unused(cache));
    return !lost;
}

static void quarantine_free(struct stook_cache *cache, void *object)
{
    if (stat_counts_fast(cache) || !stook_rseq_push(cache->own, cache->head.rseq_offset, object))
        free_slow(cache, object);
}

/* Takes objects out that must leave, and returns how many.  If the queue then has room for *object, it is queued and
 * set to NULL. */
static unsigned quarantine_come(struct stook_cache *cache, void **object, void **leaving)
{
    size_t bytes = cache->layout.stride;
    struct quarantine *queue;
    unsigned due;

    context_enter(); /* a signal handler that interrupts this thread drains no queue */
    queue = quarantine_enter();
    if (!queue) {
        context_leave();
        return 0;
    }
    due = quarantine_due(queue, bytes < QUARANTINE_BYTES ? QUARANTINE_BYTES - bytes : 0, leaving);
    if (due < QUARANTINE_LEAVE && queue->end - queue->first < QUARANTINE_ENTRIES) {
        queue->object[queue->end % QUARANTINE_ENTRIES] = *object;
        quarantine_count(queue, cache, 1);
        queue->end++;
        *object = NULL;
    }
    lock_word_drop(&queue->lock);
    context_leave();
    return due;
}

void quarantine_hold(struct stook_cache *cache, void **objects, size_t n)
{
    void *leaving[QUARANTINE_LEAVE];
    int saved = errno;

    if (!(cache->flags & STOOK_CACHE_QUARANTINE)) {
        quarantine_fill(cache, objects, n);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        unsigned due;
        if (!objects[i])
            continue;
        if (canary_fills(cache))
            canary_fill(cache, objects[i]);
        do {
            due = quarantine_come(cache, &objects[i], leaving);
            for (unsigned k = 0; k < due; k++) {
                struct stook_cache *own = slab_cache_of(leaving[k]);
                if (quarantine_leave(own, leaving[k]))
                    quarantine_free(own, leaving[k]);
                /* Release: the last access to the cache, which may be destroyed from here on. */
                atomic_fetch_sub_explicit(&own->pending, 1, memory_order_release);
            }
        } while (due > 0 && objects[i]);
        if (objects[i]) /* no queue could take it: the caller frees it at once */
            (void)quarantine_move(cache, objects[i], QUARANTINE_HELD, quarantine_unused(cache));
    }
    errno = saved;
}

/* Takes objects of one cache out of a queue, QUARANTINE_LEAVE at most.  The others keep their order. */
LOCK_UNCHECKED static unsigned quarantine_extract(struct quarantine *queue,
                                                  struct stook_cache *cache, void **leaving)
{
    uint32_t kept = queue->first;
    unsigned n = 0;

    for (uint32_t i = queue->first; i != queue->end; i++) {
        void *object = queue->object[i % QUARANTINE_ENTRIES];
        if (n < QUARANTINE_LEAVE && slab_cache_of(object) == cache) {
            leaving[n++] = object;
            quarantine_count(queue, cache, -1);
        } else {
            queue->object[kept++ % QUARANTINE_ENTRIES] = object;
        }
    }
    queue->end = kept;
    return n;
}

/* This waits for each queue's lock.  A thread that holds one is some instructions from dropping it. */
LOCK_UNCHECKED void quarantine_release(struct stook_cache *cache)
{
    void *leaving[QUARANTINE_LEAVE];

    for (unsigned cpu = 0; cpu < quarantine_end(); cpu++) {
        struct quarantine *queue = atomic_load_explicit(&quarantine_of[cpu], memory_order_acquire);
        unsigned n = QUARANTINE_LEAVE, left;
        while (queue && n == QUARANTINE_LEAVE) {
            for (unsigned turn = 0; !lock_word_try(&queue->lock); turn++)
                lock_pause(turn);
            n = quarantine_extract(queue, cache, leaving);
            lock_word_drop(&queue->lock);
            left = 0;
            for (unsigned i = 0; i < n; i++)
                if (quarantine_leave(cache, leaving[i]))
                    leaving[left++] = leaving[i];
            if (left > 0) {
                stat_add(cache, STAT_free_slowpath, left);
                node_put(cache, leaving, left, false);
            }
        }
    }
}

/* Another thread of the parent may have held a queue's lock at the fork.  It may have added an entry that it did not
 * count, so this counts the bytes again. */
SECOND_TEXT void quarantine_child(void)
{
    for (unsigned cpu = 0; cpu < quarantine_end(); cpu++) {
        struct quarantine *queue = atomic_load_explicit(&quarantine_of[cpu], memory_order_relaxed);
        size_t bytes = 0;
        if (!queue)
            continue;
        lock_init(&queue->lock);
        for (uint32_t i = queue->first; i != queue->end; i++)
            bytes += slab_cache_of(queue->object[i % QUARANTINE_ENTRIES])->layout.stride;
        atomic_store_explicit(&queue->bytes, bytes, memory_order_relaxed);
    }
}

void *quarantine_held(unsigned cpu, uint32_t n)
{
    const struct quarantine *queue =
        cpu < quarantine_end() ? atomic_load(&quarantine_of[cpu]) : NULL;

    return queue && n < queue->end - queue->first
               ? queue->object[(queue->first + n) % QUARANTINE_ENTRIES]
               : NULL;
}

size_t quarantine_bytes(void)
{
    size_t bytes = 0;

    for (unsigned cpu = 0; cpu < quarantine_end(); cpu++) {
        const struct quarantine *queue =
            atomic_load_explicit(&quarantine_of[cpu], memory_order_acquire);
        bytes += queue ? quarantine_has(queue) : 0;
    }
    return bytes;
}
