/* SPDX-License-Identifier: MIT */
/*
 * pages_track.c - a set-associative table of the tracks of large objects, by address.  A thread claims an entry by
 * compare-and-swap before it writes it.
 */
#include "debug/pages_track.h"

#include "base/placed.h"
#include "site/tag.h"

#include <stdatomic.h>

enum { PAGES_SETS = 2048, PAGES_WAYS = 8 };

/* Instead of an object's address, which is inverted: a search for leaks takes what it finds in memory for pointers. */
enum { PAGES_NONE, PAGES_TAKEN };

struct pages_entry {
    _Atomic uintptr_t object; /* a thread that changes the rest has put PAGES_TAKEN in its place */
    _Atomic uint64_t freed;   /* when: as the track's time; 0: it is in use */
    size_t size;
    struct track track[TRACKS];
};

struct pages_set {
    struct pages_entry way[PAGES_WAYS];
};

bool pages_track_on;
static _Atomic(struct pages_set *) pages_sets;

FIRST_TEXT void pages_track_start(void)
{
    pages_track_on = debug_flags_large_users();
}

static struct pages_set *pages_table(bool make)
{
    struct pages_set *found = atomic_load_explicit(&pages_sets, memory_order_acquire);

    return found || !make ? found : tag_map(&pages_sets, NULL, PAGES_SETS * sizeof(*found));
}

static struct pages_set *pages_set_of(const void *object, bool make)
{
    struct pages_set *table = pages_table(make);

    return table ? &table[((uintptr_t)object * 0x9e3779b97f4a7c15u >> 32) % PAGES_SETS] : NULL;
}

/* An entry that has `has` is the caller's until it stores an address there; false: it has another. */
static bool pages_take(struct pages_entry *entry, uintptr_t has)
{
    return atomic_compare_exchange_strong_explicit(&entry->object, &has, PAGES_TAKEN,
                                                   memory_order_acq_rel, memory_order_relaxed);
}

/* Its place may be taken for another object: 0, at once; the sooner, the longer it has been free; UINT64_MAX: not now. */
static uint64_t pages_rank(const struct pages_entry *entry, uintptr_t has, const void *object)
{
    uint64_t freed = atomic_load_explicit(&entry->freed, memory_order_relaxed);

    if (has == PAGES_NONE || has == ~(uintptr_t)object)
        return 0;
    return has != PAGES_TAKEN && freed ? freed : UINT64_MAX;
}

void pages_track_alloc(const void *object, size_t size, uint64_t where)
{
    struct pages_set *set = pages_set_of(object, true);
    struct pages_entry *entry = NULL;
    uint64_t least = UINT64_MAX;
    uintptr_t had = PAGES_NONE;

    for (unsigned i = 0; set && i < PAGES_WAYS; i++) {
        uintptr_t has = atomic_load_explicit(&set->way[i].object, memory_order_acquire);
        uint64_t rank = pages_rank(&set->way[i], has, object);
        if (rank < least || (rank == least && has == ~(uintptr_t)object)) {
            least = rank;
            entry = &set->way[i];
            had = has;
        }
    }
    if (!entry || !pages_take(entry, had))
        return;
    entry->size = size;
    track_now(&entry->track[TRACK_ALLOC], where);
    entry->track[TRACK_FREE] = (struct track){0};
    atomic_store_explicit(&entry->freed, 0, memory_order_relaxed);
    atomic_store_explicit(&entry->object, ~(uintptr_t)object, memory_order_release);
}

void pages_track_free(const void *object)
{
    struct pages_set *set = pages_set_of(object, false);

    for (unsigned i = 0; set && i < PAGES_WAYS; i++) {
        struct pages_entry *entry = &set->way[i];
        if (atomic_load_explicit(&entry->freed, memory_order_relaxed) == 0 &&
            pages_take(entry, ~(uintptr_t)object)) {
            track_now(&entry->track[TRACK_FREE], 0);
            atomic_store_explicit(&entry->freed, entry->track[TRACK_FREE].time,
                                  memory_order_relaxed);
            atomic_store_explicit(&entry->object, ~(uintptr_t)object, memory_order_release);
            return;
        }
    }
}

bool pages_track_get(const void *pointer, struct track tracks[TRACKS])
{
    const struct pages_set *table = pages_table(false);
    uint64_t last = 0;

    for (unsigned i = 0; table && i < PAGES_SETS * PAGES_WAYS; i++) {
        const struct pages_entry *entry = &table[i / PAGES_WAYS].way[i % PAGES_WAYS];
        uintptr_t has = atomic_load_explicit(&entry->object, memory_order_acquire);
        if (has <= PAGES_TAKEN || (uintptr_t)pointer - ~has > entry->size ||
            entry->track[TRACK_ALLOC].time < last)
            continue;
        last = entry->track[TRACK_ALLOC].time;
        for (unsigned which = 0; which < TRACKS; which++)
            tracks[which] = entry->track[which];
    }
    return last > 0;
}
