/* SPDX-License-Identifier: MIT */
/*
 * pages_track.c - a table of the tracks of large objects.  An object's address says which entry it has, in place of any
 * other.  A thread claims an entry by compare-and-swap before it writes it.
 */
#include "debug/pages_track.h"

#include "base/placed.h"
#include "site/tag.h"

#include <stdatomic.h>

enum { PAGES_ENTRIES = 1 << 14 };

/* Instead of an object's address, which is inverted: a search for leaks takes what it finds in memory for pointers. */
enum { PAGES_NONE, PAGES_TAKEN };

struct pages_entry {
    _Atomic uintptr_t object; /* a thread that changes the rest has put PAGES_TAKEN in its place */
    size_t size;
    struct track track[TRACKS];
};

bool pages_track_on;
static _Atomic(struct pages_entry *) pages_table;

FIRST_TEXT void pages_track_start(void)
{
    pages_track_on = debug_flags_large_users();
}

/* NULL: out of memory. */
static struct pages_entry *pages_entry_of(const void *object)
{
    struct pages_entry *table = atomic_load_explicit(&pages_table, memory_order_acquire);

    if (!table)
        table = tag_map(&pages_table, NULL, PAGES_ENTRIES * sizeof(*table));
    return table ? &table[((uintptr_t)object * 0x9e3779b97f4a7c15u >> 32) % PAGES_ENTRIES] : NULL;
}

/* An entry that has `has` is the caller's until it stores an address there; false: it has another. */
static bool pages_take(struct pages_entry *entry, uintptr_t has)
{
    return has != PAGES_TAKEN &&
           atomic_compare_exchange_strong_explicit(&entry->object, &has, PAGES_TAKEN,
                                                   memory_order_acq_rel, memory_order_relaxed);
}

void pages_track_alloc(const void *object, size_t size, uint64_t where)
{
    struct pages_entry *entry = pages_entry_of(object);

    if (!entry || !pages_take(entry, atomic_load_explicit(&entry->object, memory_order_relaxed)))
        return;
    entry->size = size;
    track_now(&entry->track[TRACK_ALLOC], where);
    entry->track[TRACK_FREE] = (struct track){0};
    atomic_store_explicit(&entry->object, ~(uintptr_t)object, memory_order_release);
}

void pages_track_free(const void *object)
{
    struct pages_entry *entry = pages_entry_of(object);

    if (!entry || !pages_take(entry, ~(uintptr_t)object))
        return;
    if (entry->track[TRACK_FREE].time == 0)
        track_now(&entry->track[TRACK_FREE], 0);
    atomic_store_explicit(&entry->object, ~(uintptr_t)object, memory_order_release);
}

bool pages_track_get(const void *pointer, struct track tracks[TRACKS])
{
    const struct pages_entry *table = atomic_load_explicit(&pages_table, memory_order_acquire);
    uint64_t last = 0;

    for (unsigned i = 0; table && i < PAGES_ENTRIES; i++) {
        uintptr_t has = atomic_load_explicit(&table[i].object, memory_order_acquire);
        if (has <= PAGES_TAKEN || (uintptr_t)pointer - ~has > table[i].size ||
            table[i].track[TRACK_ALLOC].time < last)
            continue;
        last = table[i].track[TRACK_ALLOC].time;
        for (unsigned which = 0; which < TRACKS; which++)
            tracks[which] = table[i].track[which];
    }
    return last > 0;
}
