/* SPDX-License-Identifier: MIT */
/*
 * slot_look.h - the main sheaf of a slot that no other thread uses meanwhile, and its size.
 */
#ifndef STOOK_TEST_SLOT_LOOK_H
#define STOOK_TEST_SLOT_LOOK_H

#include "sheaf/slot.h"

/* With its size; NULL: there is none, or the slot is closed. */
static inline struct sheaf *slot_look(struct slot *slot)
{
    void **begin = atomic_load(&slot->begin);
    struct sheaf *main;

    if (!begin || begin == SLOT_CLOSED)
        return NULL;
    main = (struct sheaf *)(void *)((char *)begin - offsetof(struct sheaf, object));
    main->size = (uint32_t)(atomic_load(&slot->top) - begin);
    return main;
}

/* Objects in this CPU's main sheaf. */
static inline uint32_t slot_look_size(uintptr_t offset)
{
    const struct sheaf *main = slot_look(percpu_slot_at(percpu_cpu(), offset));

    return main ? main->size : 0;
}

/* So many of the objects that the main sheaf has room for are in it, on this CPU. */
static inline void slot_set_size(uintptr_t offset, uint32_t size)
{
    struct slot *slot = NULL;
    struct sheaf *main;

    while ((main = slot_close(offset, &slot, false)) == NULL)
        continue;
    main->size = size;
    slot_open(slot, main);
}

#endif
