/* SPDX-License-Identifier: MIT */
/*
 * slot.c - pops and pushes of the library's own calls, and the closing, opening and taking of a slot.
 * In locked mode all of this closes slots as a taker does (slot_sections.h).
 */
#include "sheaf/slot.h"

#include "sheaf/slot_sections.h"

const struct sheaf sheaf_none = {0};

uint32_t slot_pop_bulk(uintptr_t offset, void **objects, uint32_t want)
{
    uint32_t taken;

    if (!percpu.rseq)
        return slot_pop_locked(offset, objects, want);
    for (int i = 0; want > 0 && i < PERCPU_RETRIES; i++) {
        enum rseq_result r =
            rseq_pop_bulk(percpu.areas + offset, percpu.rseq_offset, objects, want, &taken);
        if (r != RSEQ_ABORTED)
            return r == RSEQ_DONE ? taken : 0;
    }
    return 0;
}

uint32_t slot_push_bulk(uintptr_t offset, void *const *objects, uint32_t have)
{
    uint32_t put;

    if (!percpu.rseq)
        return slot_push_locked(offset, objects, have);
    for (int i = 0; have > 0 && i < PERCPU_RETRIES; i++) {
        enum rseq_result r =
            rseq_push_bulk(percpu.areas + offset, percpu.rseq_offset, objects, have, &put);
        if (r != RSEQ_ABORTED)
            return r == RSEQ_DONE ? put : 0;
    }
    return 0;
}

/* The sheaf whose array begins there. */
static struct sheaf *slot_main(void *begin)
{
    return begin ? (struct sheaf *)(void *)((char *)begin - offsetof(struct sheaf, object))
                 : SHEAF_NONE;
}

/* No section on the slot's CPU commits any more: the size of main is what top says. */
static struct sheaf *slot_measure(const struct slot *slot, struct sheaf *main)
{
    if (main != SHEAF_NONE)
        main->size =
            (uint32_t)(atomic_load_explicit(&slot->top, memory_order_relaxed) - main->object);
    return main;
}

/* Closes the slot of a CPU in use, whose main sheaf is returned; NULL: it is closed, or was left. */
static struct sheaf *slot_close_on(unsigned cpu, struct slot *slot)
{
    struct sheaf *held = NULL;
    void *begin;

    if (!percpu.rseq)
        held = slot_take(slot, true) ? slot_taken(slot) : NULL;
    else if (rseq_close(slot, percpu.rseq_offset, (int)cpu, SLOT_CLOSED, &begin) == RSEQ_DONE)
        held = slot_measure(slot, slot_main(begin));
        /* Full: either percpu_change_use() comes before this look, or its caller finds the slot closed. */
#ifndef __x86_64__ /* where a locked instruction closes, which orders all loads and stores */
    if (held)
        atomic_thread_fence(memory_order_seq_cst);
#endif
    if (held && percpu_use_of(cpu) != PERCPU_USED) { /* left meanwhile */
        slot_open(slot, held);
        return NULL;
    }
    return held;
}

struct sheaf *slot_close(uintptr_t offset, struct slot **slot, bool nospin)
{
    for (int i = 0; i < PERCPU_RETRIES; i++) {
        struct sheaf *held;
        int cpu = percpu_cpu();

        if (!percpu.rseq && cpu >= 0 && percpu_use_of((unsigned)cpu) == PERCPU_LEFT) {
            percpu_kept = -1; /* the thread has left it, too, or it is a used one again */
            cpu = percpu_cpu();
        }
        if (cpu < 0 ||
            (percpu_use_of((unsigned)cpu) != PERCPU_USED && !percpu_use((unsigned)cpu, nospin)))
            return NULL;
        *slot = percpu_slot_at(cpu, offset);
        held = slot_close_on((unsigned)cpu, *slot);
        if (held)
            return held;
        if (!percpu.rseq ||
            atomic_load_explicit(&(*slot)->begin, memory_order_relaxed) == SLOT_CLOSED)
            return NULL;
        /* Migrated, aborted, or the CPU was left: once more. */
    }
    return NULL;
}

void slot_open(struct slot *slot, struct sheaf *main)
{
    bool none = main == SHEAF_NONE;

    slot->held = main;
    atomic_store_explicit(&slot->top, none ? NULL : main->object + main->size,
                          memory_order_relaxed);
    atomic_store_explicit(&slot->end, none ? NULL : main->object + main->capacity,
                          memory_order_release);
    slot_reopen(slot);
}

void slot_reopen(struct slot *slot)
{
    struct sheaf *main = slot->held;

    slot->held = NULL;
    /* What the sheaf holds was written before, and top; this and end pair with the gates that sections load. */
    atomic_store_explicit(&slot->begin, main == SHEAF_NONE ? NULL : main->object,
                          memory_order_release);
}

struct sheaf *slot_take(struct slot *slot, bool whole)
{
    void **begin = atomic_load_explicit(&slot->begin, memory_order_relaxed);

    do {
        if (begin == SLOT_CLOSED)
            return NULL;
    } while (!atomic_compare_exchange_weak_explicit(&slot->begin, &begin, SLOT_CLOSED,
                                                    memory_order_acq_rel, memory_order_relaxed));
    if (whole)
        atomic_store_explicit(&slot->end, NULL, memory_order_relaxed);
    slot->held = slot_main(begin);
    return slot->held;
}

struct sheaf *slot_taken(struct slot *slot)
{
    return slot_measure(slot, slot->held);
}
