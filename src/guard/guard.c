/* SPDX-License-Identifier: MIT */
/*
 * guard.c - allocates and frees guarded objects. guard_pool.c has the pages, guard_fault.c the faults and the
 * reports.
 */
#include "guard/guard.h"

#include "debug/zone.h"
#include "guard/guard_fault.h"
#include "guard/guard_pool.h"
#include "os/os.h"
#include "percpu/random.h"
#include "sample/otel.h"

#include <errno.h>
#include <string.h>

/* The argument of guard_begin(). */
static _Atomic uint64_t guard_mean;

/* The first sample makes the pool.  A child that was forked while another thread was making it has none. */
static _Atomic bool guard_is_made;

static bool guard_is_ready(void)
{
    if (!atomic_load_explicit(&guard_is_made, memory_order_relaxed) &&
        !atomic_exchange(&guard_is_made, true) && guard_catch())
        guard_map();
    return atomic_load_explicit(&guard.bytes, memory_order_acquire) != 0;
}

/* ---- objects ---------------------------------------------------------------------------------- */

/* The bytes around the object that are checked when it is freed. */
static char *guard_zone_begin(const struct guard_slot *slot)
{
    char *page = guard_page(slot);

    return slot->object - page > GUARD_ZONE ? slot->object - GUARD_ZONE : page;
}

static char *guard_zone_end(const struct guard_slot *slot)
{
    char *end = guard_page(slot) + guard.page, *behind = slot->object + slot->size;

    return end - behind > GUARD_ZONE ? behind + GUARD_ZONE : end;
}

/* At one end of its page, by chance, as near as the alignment allows. */
static void guard_place(struct guard_slot *slot, size_t size, size_t align)
{
    char *page = guard_page(slot);

    slot->object = random_below(2) ? page + ((guard.page - size) & ~(align - 1)) : page;
    slot->size = size;
    slot->align = (uint32_t)align;
    memset(guard_zone_begin(slot), ZONE_LIVE, (size_t)(slot->object - guard_zone_begin(slot)));
    memset(slot->object + size, ZONE_LIVE, (size_t)(guard_zone_end(slot) - (slot->object + size)));
}

/*
 * Not sooner after this thread's last one than so many objects, so that what a sample costs at most is known.  Objects are
 * not counted: those that samples stand for are as many, in the mean.
 */
static bool guard_is_due(float weight)
{
    static __thread struct {
        bool before;
        float since;
    } own __attribute__((tls_model("initial-exec")));

    own.since += weight;
    if (guard_mean >= GUARD_PAUSE_LEAST && own.before &&
        own.since < (float)(guard_mean / GUARD_PAUSE))
        return false;
    own.before = true;
    own.since = 0;
    return true;
}

static void *guard_make(const struct stook_cache *cache, size_t size, size_t align, uint64_t where)
{
    struct guard_slot *slot;

    if (size == 0)
        size = 1;
    if (align < cache->align)
        align = cache->align;
    if (!guard_is_ready() || size > guard.page || align > guard.page)
        return NULL;
    slot = guard_find();
    if (!slot)
        return NULL;
    if (!os_unguard(guard_page(slot), guard.page)) {
        guard_set(slot, GUARD_FREED); /* as if it had been, and nothing is known of it */
        return NULL;
    }
    guard_place(slot, size, align);
    slot->cache = cache;
    slot->freed = (struct track){0};
    track_now(&slot->allocated, where);
    atomic_store_explicit(&slot->flags, 0, memory_order_relaxed);
    atomic_fetch_add_explicit(&guard.sampled, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&guard.live, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&guard.live_bytes, size, memory_order_relaxed);
    guard_set(slot, GUARD_LIVE);
    return slot->object;
}

/* Bytes that stand behind samples that were not guarded: they are added to the next one that is. */
static _Atomic uint64_t guard_skipped;

void *guard_alloc(const struct stook_cache *cache, size_t size, size_t align, uint64_t where,
                  float weight)
{
    void *object = guard_is_due(weight) ? guard_make(cache, size, align, where) : NULL;
    uint64_t bytes = (uint64_t)(weight * (float)size);

    if (sample_mean_of(SAMPLE_PROFILE) != 0) /* which tells of its own, for all bytes */
        return object;
    if (object)
        otel_alloc(object, size,
                   bytes + atomic_exchange_explicit(&guard_skipped, 0, memory_order_relaxed));
    else
        atomic_fetch_add_explicit(&guard_skipped, bytes, memory_order_relaxed);
    return object;
}

size_t guard_size(const void *object)
{
    const struct guard_slot *slot = guard_covers(object) ? guard_slot_of(object) : NULL;

    return slot && guard_state(slot) == GUARD_LIVE && slot->object == object ? slot->size : 0;
}

static void guard_check_zones(const struct guard_slot *slot, const char *call)
{
    const char *begin = guard_zone_begin(slot), *end = slot->object + slot->size;
    const uint64_t word = ZONE_WORD(ZONE_LIVE);
    struct zone_change change;

    if (zone_differs(begin, (size_t)(slot->object - begin), word, &change))
        guard_report(slot, change.at, DEBUG_ACCEPTED, 0, "%s found %zu bytes overwritten", call,
                     change.bytes);
    if (zone_differs(end, (size_t)(guard_zone_end(slot) - end), word, &change))
        guard_report(slot, change.at, DEBUG_ACCEPTED, 0, "%s found %zu bytes overwritten", call,
                     change.bytes);
}

static void guard_end(struct guard_slot *slot)
{
    bool broken = (atomic_load_explicit(&slot->flags, memory_order_relaxed) & GUARD_BROKEN) != 0;

    track_now(&slot->freed, 0);
    if (!os_guard(guard_page(slot), guard.page))
        broken = true;
    atomic_fetch_sub_explicit(&guard.live, 1, memory_order_relaxed);
    atomic_fetch_sub_explicit(&guard.live_bytes, slot->size, memory_order_relaxed);
    guard_set(slot, broken ? GUARD_OPEN : GUARD_FREED);
}

void guard_bad_pointer(const char *call, const void *pointer)
{
    const struct guard_slot *slot = guard_slot_of(pointer);

    if (slot && !slot->object)
        slot = NULL;
    guard_report(slot, pointer, DEBUG_REFUSED, 0, "%s: pointer %p is %s", call, pointer,
                 !slot                     ? "in no object"
                 : pointer != slot->object ? "not the start of an object"
                                           : "free already");
}

void guard_free(void *object, const char *call)
{
    struct guard_slot *slot = guard_slot_of(object);
    int saved = errno;
    uint64_t word;

    if (slot && slot->object == object) {
        word = atomic_load_explicit(&slot->word, memory_order_acquire);
        if (guard_state_of(word) == GUARD_LIVE && guard_take(slot, word)) {
            otel_free(object);
            guard_check_zones(slot, call);
            guard_end(slot);
            errno = saved;
            return;
        }
    }
    guard_bad_pointer(call, object);
    errno = saved;
}

/* ---- settings --------------------------------------------------------------------------------- */

void guard_begin(uint64_t mean)
{
    guard_mean = mean;
    sample_begin(SAMPLE_GUARD, mean);
}
