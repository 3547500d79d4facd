/* SPDX-License-Identifier: MIT */
/*
 * slot_locked.h - the sections on slots behind a lock word a slot, for a process without rseq.
 *
 *   close:  trylock slot.lock; m = slot.held     open:  slot.held = m; slot.lock = 0, release
 *   pop, push, bulk: close; the section's work; open
 *
 * The lock is only ever tried: a thread preempted inside makes others go to the slabs, as with a
 * closed slot.  The CPU number is a hint: after a migration the slot is another CPU's, and still
 * locked.
 */
#ifndef STOOK_SHEAF_SLOT_LOCKED_H
#define STOOK_SHEAF_SLOT_LOCKED_H

#include "sheaf/slot.h"

#include <string.h>

static inline struct sheaf *locked_take(struct slot *slot)
{
    uint8_t open = 0;

    if (!atomic_compare_exchange_strong_explicit(&slot->lock, &open, 1, memory_order_acquire,
                                                 memory_order_relaxed))
        return NULL;
    return slot->held ? slot->held : SHEAF_NONE;
}

static inline void locked_open(struct slot *slot, struct sheaf *main)
{
    slot->held = main;
    atomic_store_explicit(&slot->lock, 0, memory_order_release);
}

static inline struct sheaf *locked_close(int cpu, uintptr_t offset, struct slot **slot)
{
    *slot = cpu < 0 ? NULL : percpu_slot((unsigned)cpu, offset);
    return *slot ? locked_take(*slot) : NULL;
}

static inline uint32_t locked_pop_bulk(int cpu, uintptr_t offset, void **objects, uint32_t want)
{
    struct slot *slot;
    struct sheaf *m = locked_close(cpu, offset, &slot);
    uint32_t k = 0;

    if (!m)
        return 0;
    if (m->size > 0) {
        k = m->size < want ? m->size : want;
        m->size -= k;
        memcpy(objects, &m->object[m->size], k * sizeof(void *));
    }
    locked_open(slot, m);
    return k;
}

static inline uint32_t locked_push_bulk(int cpu, uintptr_t offset, void *const *objects,
                                        uint32_t have)
{
    struct slot *slot;
    struct sheaf *m = locked_close(cpu, offset, &slot);
    uint32_t k = 0;

    if (!m)
        return 0;
    /* A single one that repeats stays outside: sheaf/slot_free.c checks it, and reports it. */
    if (m->size < m->capacity && (have > 1 || !sheaf_repeats(m, objects[0]))) {
        k = m->capacity - m->size < have ? m->capacity - m->size : have;
        for (uint32_t i = 0; i < k; i++) {
            if (!objects[i]) {
                k = 0;
                break;
            }
            m->object[m->size + i] = objects[i];
        }
        m->size += k;
    }
    locked_open(slot, m);
    return k;
}

#endif
