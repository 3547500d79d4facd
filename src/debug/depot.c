/* SPDX-License-Identifier: MIT */
/*
 * depot.c - the stack depot: records of call stacks in chunks, found by a hash of their addresses.  Every step is one
 * compare-and-swap, so a thread may stop, or a signal handler interrupt it, between any two.
 */
#include "debug/depot.h"

#include "base/placed.h"
#include "site/modules.h"
#include "site/tag.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

enum {
    DEPOT_BUCKETS = 1 << 16,
    DEPOT_CHUNK = 1 << DEPOT_CHUNK_SHIFT,
};

struct depot depot LARGE_BSS;

static struct depot_record *depot_record(uint32_t number)
{
    uint64_t *chunk =
        (number >> DEPOT_CHUNK_SHIFT) < DEPOT_CHUNKS
            ? atomic_load_explicit(&depot.chunk[number >> DEPOT_CHUNK_SHIFT], memory_order_acquire)
            : NULL;

    return chunk ? (struct depot_record *)(void *)(chunk + (number & (DEPOT_CHUNK - 1))) : NULL;
}

/* Room for a record of so many words; 0: there is none. */
static uint32_t depot_take(uint32_t words)
{
    for (;;) {
        uint64_t at = atomic_load_explicit(&depot.used, memory_order_relaxed), from;
        do {
            from = at ? at : 1;
            if (from % DEPOT_CHUNK + words > DEPOT_CHUNK)
                from += DEPOT_CHUNK - from % DEPOT_CHUNK;
            if (from / DEPOT_CHUNK >= DEPOT_CHUNKS)
                return 0;
        } while (!atomic_compare_exchange_weak_explicit(
            &depot.used, &at, from + words, memory_order_relaxed, memory_order_relaxed));
        return tag_map(&depot.chunk[from / DEPOT_CHUNK], NULL, DEPOT_CHUNK * sizeof(uint64_t))
                   ? (uint32_t)from
                   : 0;
    }
}

/* Among the records from `number` to before `end`. */
static uint32_t depot_find(uint32_t number, uint32_t end, uint32_t hash, const uint64_t *frames,
                           unsigned depth)
{
    while (number != end) {
        const struct depot_record *record = depot_record(number);
        if (record->hash == hash && record->depth == depth &&
            memcmp(record->frames, frames, depth * sizeof(*frames)) == 0)
            return number;
        number = record->next;
    }
    return 0;
}

uint32_t depot_put(const uint64_t *frames, unsigned depth)
{
    _Atomic uint32_t *bucket;
    uint64_t hash = depth;
    uint32_t head, found, number, seen = 0;
    struct depot_record *record;

    if (depth > DEPOT_DEPTH)
        depth = DEPOT_DEPTH;
    if (depth == 0)
        return 0;
    for (unsigned i = 0; i < depth; i++) {
        hash = (hash ^ frames[i]) * 0x9e3779b97f4a7c15u;
        hash ^= hash >> 29;
    }
    bucket = tag_map(&depot.bucket, NULL, DEPOT_BUCKETS * sizeof(*bucket));
    if (!bucket)
        return 0;
    bucket += hash >> 48;
    /* Acquire: the record, which was written before it was put in front. */
    head = atomic_load_explicit(bucket, memory_order_acquire);
    found = depot_find(head, 0, (uint32_t)hash, frames, depth);
    if (found)
        return found;
    number = depot_take((uint32_t)(sizeof(*record) / sizeof(uint64_t)) + depth);
    if (number == 0)
        return 0;
    record = depot_record(number);
    record->hash = (uint32_t)hash;
    record->depth = depth;
    memcpy(record->frames, frames, depth * sizeof(*frames));
    for (unsigned i = 0; i < depth; i++)
        modules_note(frames[i]);
    for (;;) {
        record->next = head;
        seen = head;
        if (atomic_compare_exchange_weak_explicit(bucket, &head, number, memory_order_release,
                                                  memory_order_acquire))
            return number;
        /* Another thread put records in front: perhaps this one.  Then ours stays unused. */
        found = depot_find(head, seen, (uint32_t)hash, frames, depth);
        if (found)
            return found;
    }
}

unsigned depot_get(uint32_t number, uint64_t frames[DEPOT_DEPTH])
{
    const struct depot_record *record;

    /* Numbers come from elements that an overrun may have changed: any number must do. */
    if (number == 0 || number >= atomic_load_explicit(&depot.used, memory_order_relaxed) ||
        !(record = depot_record(number)) || record->depth > DEPOT_DEPTH ||
        (number & (DEPOT_CHUNK - 1)) + 2 + record->depth > DEPOT_CHUNK)
        return 0;
    memcpy(frames, record->frames, record->depth * sizeof(*frames));
    return (unsigned)record->depth;
}

uint32_t depot_here(uint64_t where)
{
    uint64_t frames[DEPOT_DEPTH];
    const void *site = (const void *)(uintptr_t)(where >> 1);
    unsigned depth;

    if (where & 1) {
        frames[0] = DEPOT_SITE | (uintptr_t)site;
        return depot_put(frames, 1 + tag_stack_walk(NULL, frames + 1, DEPOT_DEPTH - 1));
    }
    depth = tag_stack_walk(site, frames, DEPOT_DEPTH);
    if (depth == 0 && site)
        frames[depth++] = (uintptr_t)site;
    return depot_put(frames, depth);
}
