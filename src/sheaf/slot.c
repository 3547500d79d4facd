/* SPDX-License-Identifier: MIT */
/*
 * slot.c - pops and pushes of the library's own calls, and the closing, opening and taking of a slot.
 */
#include "sheaf/slot.h"

#include "sheaf/slot_locked.h"
#include "sheaf/slot_sections.h"

enum {
#ifdef __x86_64__
    SLOT_CLOSE_IS_FENCE = 1, /* a locked instruction orders all loads and stores */
#else
    SLOT_CLOSE_IS_FENCE = 0,
#endif
};

const struct sheaf sheaf_closed = {0};
const struct sheaf sheaf_none = {0};

uint32_t slot_pop_bulk(uintptr_t offset, void **objects, uint32_t want)
{
    uint32_t taken;

    if (!percpu.rseq)
        return locked_pop_bulk(percpu_cpu(), offset, objects, want);
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
        return locked_push_bulk(percpu_cpu(), offset, objects, have);
    for (int i = 0; have > 0 && i < PERCPU_RETRIES; i++) {
        enum rseq_result r =
            rseq_push_bulk(percpu.areas + offset, percpu.rseq_offset, objects, have, &put);
        if (r != RSEQ_ABORTED)
            return r == RSEQ_DONE ? put : 0;
    }
    return 0;
}

/* Closes the slot of a CPU in use, whose main sheaf is returned; NULL: it is closed, or was left. */
static struct sheaf *slot_close_on(unsigned cpu, struct slot *slot)
{
    struct sheaf *held = percpu.rseq ? NULL : locked_take(slot);
    void *main = NULL;

    if (percpu.rseq) {
        if (rseq_close(slot, percpu.rseq_offset, (int)cpu, SHEAF_CLOSED, &main) != RSEQ_DONE)
            return NULL;
        held = main ? main : SHEAF_NONE;
    }
    /* Full: either percpu_change_use() comes before this look, or its caller finds the slot closed. */
    if (held && !SLOT_CLOSE_IS_FENCE)
        atomic_thread_fence(memory_order_seq_cst);
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

        if (cpu < 0 ||
            (percpu_use_of((unsigned)cpu) != PERCPU_USED && !percpu_use((unsigned)cpu, nospin)))
            return NULL;
        *slot = percpu_slot_at(cpu, offset);
        held = slot_close_on((unsigned)cpu, *slot);
        if (held)
            return held;
        if (!percpu.rseq ||
            atomic_load_explicit(&(*slot)->main, memory_order_relaxed) == SHEAF_CLOSED)
            return NULL;
        /* Migrated, aborted, or the CPU was left: once more. */
    }
    return NULL;
}

void slot_open(struct slot *slot, struct sheaf *main)
{
    if (percpu.rseq) {
        slot->held = NULL;
        /* What the sheaf holds was written before; pairs with the dependent loads of a section. */
        atomic_store_explicit(&slot->main, main, memory_order_release);
        return;
    }
    locked_open(slot, main);
}

struct sheaf *slot_take(struct slot *slot)
{
    if (percpu.rseq) {
        struct sheaf *main = atomic_load_explicit(&slot->main, memory_order_relaxed);
        do {
            if (main == SHEAF_CLOSED)
                return NULL;
        } while (!atomic_compare_exchange_weak_explicit(
            &slot->main, &main, SHEAF_CLOSED, memory_order_acq_rel, memory_order_relaxed));
        slot->held = main ? main : SHEAF_NONE;
        return slot->held;
    }
    return locked_take(slot);
}
