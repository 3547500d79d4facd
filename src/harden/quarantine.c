/* SPDX-License-Identifier: MIT */
/*
 * quarantine.c - a queue of freed objects a CPU: the first that came is the first to leave, when the queue has more
 * bytes than STOOK_QUARANTINE.  So an object is not handed out again before that much was freed there.
 *
 * A queue is an array of addresses beside the objects: a write to a freed object cannot change the queue.  Its word is only tried: if another thread has it, or this one in what a handler interrupted, the next CPU's
 * serves; nothing waits.  Objects are checked and given back when the word is free again.
 *
 * A constructed object keeps its contents, and memory that readers may read is not filled: such objects are held and
 * not checked.
 */
#include "harden/quarantine.h"

#include "base/context.h"
#include "base/placed.h"
#include "base/settings.h"
#include "cache/alloc.h"
#include "os/os.h"
#include "os/topology.h"
#include "percpu/percpu.h"
#include "sheaf/slot.h"
#include "slab/column.h"
#include "slab/node.h"
#include "slab/slab.h"
#include "slab/stat.h"
#include "slab/wrong.h"

#include <errno.h>
#include <string.h>

enum {
    QUARANTINE_ENTRIES = 8192, /* objects a queue: a power of two */
    QUARANTINE_LEAVE = 16,     /* objects that leave at most while one comes */
    QUARANTINE_TRIES = 4,      /* queues that are tried */
};

struct quarantine {
    struct lock lock;    /* without a rank: nothing is called under it */
    uint32_t first, end; /* numbers of entries, which only grow */
    _Atomic size_t bytes;
    void *object[QUARANTINE_ENTRIES];
};

static _Atomic(struct quarantine *) quarantine_of[TOPOLOGY_CPUS_MAX] LARGE_BSS;
static _Atomic unsigned quarantine_end; /* all queues that there are come before */
static size_t quarantine_most;          /* bytes of a queue */

FIRST_TEXT void quarantine_start(void)
{
    quarantine_most = setting_number(SETTING_QUARANTINE);
}

/* ---- where an object is ---------------------------------------------------------------------- */

static _Atomic uint16_t *quarantine_word(const struct stook_cache *cache, const struct slab *slab,
                                         uint32_t index)
{
    return (_Atomic uint16_t *)column_at(cache, slab, LAYOUT_TRACK, index);
}

/* The object goes from one state to another; false: it was in none of the first. */
static bool quarantine_move(const struct stook_cache *cache, const void *object,
                            enum quarantine_state from, enum quarantine_state to)
{
    uint32_t index;
    const struct slab *slab = slab_find(cache, object, &index);
    uint16_t old = (uint16_t)from;

    /* Both: stores of the last user come before those of the next. */
    return atomic_compare_exchange_strong_explicit(quarantine_word(cache, slab, index), &old,
                                                   (uint16_t)to, memory_order_acq_rel,
                                                   memory_order_relaxed);
}

bool quarantine_take(const struct stook_cache *cache, void *object)
{
    return !(cache->flags & STOOK_CACHE_QUARANTINE) ||
           quarantine_move(cache, object, QUARANTINE_FREE, QUARANTINE_LIVE);
}

void quarantine_check(const struct stook_cache *cache, void **objects, size_t n)
{
    for (size_t i = 0; i < n && (cache->flags & STOOK_CACHE_QUARANTINE); i++) {
        uint32_t index;
        if (!objects[i])
            continue;
        if (!slab_of(cache, objects[i], &index)) { /* the report, if it is none of ours */
            objects[i] = NULL;
        } else if (!quarantine_move(cache, objects[i], QUARANTINE_LIVE, QUARANTINE_HELD)) {
            wrong_free(cache, objects[i], DEBUG_DOUBLE_FREE);
            objects[i] = NULL;
        }
    }
}

bool quarantine_is_live(const struct stook_cache *cache, const struct slab *slab, uint32_t index)
{
    return !(cache->flags & STOOK_CACHE_QUARANTINE) ||
           atomic_load_explicit(quarantine_word(cache, slab, index), memory_order_relaxed) ==
               QUARANTINE_LIVE;
}

bool quarantine_live(const struct stook_cache *cache, const void *object)
{
    struct debug_finding finding = {
        .what = DEBUG_REALLOC_FREED, .done = DEBUG_REFUSED, .cache = cache, .object = object};
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

/* ---- what is in it --------------------------------------------------------------------------- */

/* Whether the bytes of its freed objects are the library's. */
static bool quarantine_fills(const struct stook_cache *cache)
{
    return !cache->ctor && !cache->dtor && !(cache->flags & STOOK_CACHE_TYPESAFE);
}

static int quarantine_byte(const struct stook_cache *cache)
{
    return cache->flags & STOOK_CACHE_ZERO_ON_FREE ? 0 : QUARANTINE_FILL;
}

/* Reports an object that was written to after it was freed: true. */
static __attribute__((noinline, cold)) bool quarantine_report(const struct stook_cache *cache,
                                                              const unsigned char *object,
                                                              size_t first)
{
    struct debug_finding finding = {.what = DEBUG_POISON,
                                    .done = DEBUG_QUARANTINED,
                                    .cache = cache,
                                    .object = object,
                                    .at = object + first,
                                    .expected = (uint8_t)quarantine_byte(cache)};
    size_t end = slab_usable(cache);

    while (object[end - 1] == finding.expected)
        end--;
    finding.changed = end - first;
    finding.slab = slab_find(cache, object, &finding.index);
    wrong_found(&finding);
    return true;
}

static bool quarantine_is_changed(const struct stook_cache *cache, const unsigned char *object)
{
    const uint64_t eight = (uint64_t)quarantine_byte(cache) * 0x0101010101010101u;
    size_t bytes = slab_usable(cache), at = 0;
    uint64_t word;

    for (; at + sizeof(word) <= bytes; at += sizeof(word)) {
        memcpy(&word, object + at, sizeof(word));
        if (__builtin_expect(word != eight, 0))
            break;
    }
    while (at < bytes && object[at] == (unsigned char)eight)
        at++;
    return __builtin_expect(at < bytes, 0) && quarantine_report(cache, object, at);
}

void quarantine_fill(const struct stook_cache *cache, void *const *objects, size_t n)
{
    bool held = cache->flags & STOOK_CACHE_QUARANTINE;

    for (size_t i = 0; i < n; i++) {
        if (!objects[i])
            continue;
        if (cache->flags & STOOK_CACHE_ZERO_ON_FREE)
            memset(objects[i], 0, slab_usable(cache));
        if (held)
            (void)quarantine_move(cache, objects[i], QUARANTINE_HELD, QUARANTINE_FREE);
    }
}

/* ---- the queues ------------------------------------------------------------------------------ */

/* A queue that this thread has; NULL: there is no memory, or other threads have those of the CPUs next to it. */
LOCK_UNCHECKED static struct quarantine *quarantine_enter(void)
{
    unsigned cpu = (unsigned)percpu_cpu() % TOPOLOGY_CPUS_MAX;

    for (unsigned i = 0; i < QUARANTINE_TRIES; i++) {
        _Atomic(struct quarantine *) *at = &quarantine_of[(cpu + i) % TOPOLOGY_CPUS_MAX];
        struct quarantine *queue = atomic_load_explicit(at, memory_order_acquire), *none = NULL;
        if (!queue) {
            queue = os_map(sizeof(*queue));
            if (!queue)
                return NULL;
            for (unsigned end = atomic_load(&quarantine_end),
                          own = (cpu + i) % TOPOLOGY_CPUS_MAX + 1;
                 end < own && !atomic_compare_exchange_weak(&quarantine_end, &end, own);)
                ;
            if (!atomic_compare_exchange_strong(at, &none, queue)) {
                os_unmap(queue, sizeof(*queue));
                queue = none;
            }
        }
        if (lock_word_try(&queue->lock))
            return queue;
    }
    return NULL;
}

static size_t quarantine_size(const void *object)
{
    return slab_cache_of(object)->layout.stride;
}

static void quarantine_count(struct quarantine *queue, size_t bytes)
{
    atomic_store_explicit(&queue->bytes, bytes, memory_order_relaxed);
}

static size_t quarantine_has(const struct quarantine *queue)
{
    return atomic_load_explicit(&queue->bytes, memory_order_relaxed);
}

/* The objects that are to leave.  With the word. */
static unsigned quarantine_due(struct quarantine *queue, size_t most, void **leaving)
{
    unsigned n = 0;

    while (n < QUARANTINE_LEAVE && queue->first != queue->end &&
           (quarantine_has(queue) > most || queue->end - queue->first >= QUARANTINE_ENTRIES)) {
        void *object = queue->object[queue->first++ % QUARANTINE_ENTRIES];
        quarantine_count(queue, quarantine_has(queue) - quarantine_size(object));
        leaving[n++] = object;
    }
    return n;
}

/* Without the word.  False: the object must not be used again. */
static bool quarantine_leave(const struct stook_cache *cache, void *object)
{
    bool lost = quarantine_fills(cache) && quarantine_is_changed(cache, object);

    (void)quarantine_move(cache, object, QUARANTINE_HELD, lost ? QUARANTINE_LOST : QUARANTINE_FREE);
    return !lost;
}

static void quarantine_free(struct stook_cache *cache, void *object)
{
    if (stat_counts_fast(cache) || !stook_rseq_push(cache->own, cache->head.rseq_offset, object))
        free_slow(cache, object);
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
        struct quarantine *queue;
        unsigned due;
        if (!objects[i])
            continue;
        if (quarantine_fills(cache))
            memset(objects[i], quarantine_byte(cache), slab_usable(cache));
        context_enter(); /* a handler here drains no queue */
        queue = quarantine_enter();
        if (!queue) {
            context_leave();
            (void)quarantine_move(cache, objects[i], QUARANTINE_HELD, QUARANTINE_FREE);
            continue;
        }
        due = quarantine_due(queue, quarantine_most, leaving);
        if (queue->end - queue->first < QUARANTINE_ENTRIES) {
            queue->object[queue->end % QUARANTINE_ENTRIES] = objects[i];
            quarantine_count(queue, quarantine_has(queue) + cache->layout.stride);
            queue->end++;
            objects[i] = NULL;
        }
        lock_word_drop(&queue->lock);
        context_leave();
        for (unsigned k = 0; k < due; k++) {
            struct stook_cache *own = slab_cache_of(leaving[k]);
            if (quarantine_leave(own, leaving[k]))
                quarantine_free(own, leaving[k]);
        }
    }
    errno = saved;
}

/* Objects of the cache that are in a queue, at most QUARANTINE_LEAVE: others stay in their order. */
LOCK_UNCHECKED static unsigned quarantine_extract(struct quarantine *queue,
                                                  const struct stook_cache *cache, void **leaving)
{
    uint32_t kept = queue->first;
    unsigned n = 0;

    for (uint32_t i = queue->first; i != queue->end; i++) {
        void *object = queue->object[i % QUARANTINE_ENTRIES];
        if (n < QUARANTINE_LEAVE && slab_cache_of(object) == cache) {
            leaving[n++] = object;
            quarantine_count(queue, quarantine_has(queue) - cache->layout.stride);
        } else {
            queue->object[kept++ % QUARANTINE_ENTRIES] = object;
        }
    }
    queue->end = kept;
    return n;
}

/* A thread that has a queue's word is at most some instructions from dropping it. */
LOCK_UNCHECKED void quarantine_release(struct stook_cache *cache)
{
    void *leaving[QUARANTINE_LEAVE];

    for (unsigned cpu = 0; cpu < atomic_load(&quarantine_end); cpu++) {
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
            if (left > 0)
                node_put(cache, leaving, left, false);
        }
    }
}

/* A thread that another's fork stopped in a queue left one entry at most that is not counted. */
FIRST_TEXT void quarantine_child(void)
{
    for (unsigned cpu = 0; cpu < atomic_load(&quarantine_end); cpu++) {
        struct quarantine *queue = atomic_load_explicit(&quarantine_of[cpu], memory_order_relaxed);
        size_t bytes = 0;
        if (!queue)
            continue;
        lock_init(&queue->lock);
        for (uint32_t i = queue->first; i != queue->end; i++)
            bytes += quarantine_size(queue->object[i % QUARANTINE_ENTRIES]);
        quarantine_count(queue, bytes);
    }
}

size_t quarantine_bytes(void)
{
    size_t bytes = 0;

    for (unsigned cpu = 0; cpu < atomic_load(&quarantine_end); cpu++) {
        const struct quarantine *queue =
            atomic_load_explicit(&quarantine_of[cpu], memory_order_acquire);
        bytes += queue ? quarantine_has(queue) : 0;
    }
    return bytes;
}
