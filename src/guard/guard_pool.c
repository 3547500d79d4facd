/* SPDX-License-Identifier: MIT */
/* guard_pool.c - the mapping of the pages, and the states of slots. */
#include "guard/guard_pool.h"

#include "os/os.h"

struct guard guard;

void guard_map(void)
{
    size_t page = os_page_size(), bytes = (2 * GUARD_SLOTS + 1) * page;
    struct guard_slot *slot = os_map(GUARD_SLOTS * sizeof(*slot));
    char *pool = slot ? os_reserve(bytes, page) : NULL;

    if (!pool) {
        if (slot)
            os_unmap(slot, GUARD_SLOTS * sizeof(*slot));
        return;
    }
    guard.base = (uintptr_t)pool;
    guard.page = page;
    guard.slot = slot;
    atomic_store_explicit(&guard.bytes, bytes, memory_order_release);
}

static uint64_t guard_word(enum guard_state state)
{
    return (atomic_fetch_add_explicit(&guard.changes, 1, memory_order_relaxed) + 1)
               << GUARD_STATE_BITS |
           state;
}

void guard_set(struct guard_slot *slot, enum guard_state state)
{
    /* Release: what a thread that finds the object live, or freed, reads of the slot. */
    atomic_store_explicit(&slot->word, guard_word(state), memory_order_release);
}

bool guard_take(struct guard_slot *slot, uint64_t word)
{
    return atomic_compare_exchange_strong_explicit(&slot->word, &word, guard_word(GUARD_BUSY),
                                                   memory_order_acq_rel, memory_order_relaxed);
}

struct guard_slot *guard_find(void)
{
    struct guard_slot *oldest;
    uint64_t least;

    do {
        oldest = NULL;
        least = UINT64_MAX;
        for (uint32_t i = 0; i < GUARD_SLOTS; i++) {
            uint64_t word = atomic_load_explicit(&guard.slot[i].word, memory_order_relaxed);
            enum guard_state state = guard_state_of(word);
            if ((state == GUARD_NEVER || state == GUARD_FREED) && word < least) {
                oldest = &guard.slot[i];
                least = word;
            }
        }
    } while (oldest && !guard_take(oldest, least));
    return oldest;
}
