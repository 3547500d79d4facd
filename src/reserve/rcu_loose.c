/* SPDX-License-Identifier: MIT */
/*
 * rcu_loose.c - deferred objects that find no slot or no sheaf.  A thread has no slot if it is not registered for rseq,
 * or if it interrupted the thread that has closed the slot.
 *
 * Such objects wait in a table of cells, which takes objects of any cache, until they fill a sheaf.  Nothing here waits
 * or takes a lock.  If there is no memory for that sheaf, one of RCU_SPARES static ones is used.
 */
#include "base/report.h"
#include "base/placed.h"
#include "reserve/rcu.h"
#include "slab/node.h"

#include <string.h>

static _Atomic(void *) rcu_loose_cell[RCU_CELLS] LARGE_BSS;
static _Atomic unsigned rcu_loose_cells; /* cells in use; not exact while threads change them */

static struct rcu_loose_spare {
    _Atomic bool taken;
    union { /* last: clang puts nothing behind a structure that ends in a flexible array */
        struct sheaf sheaf;
        char room[sizeof(struct sheaf) + (RCU_MIXED + RCU_RIDE_WORDS) * sizeof(void *)];
    };
} rcu_loose_spares[RCU_SPARES] LARGE_BSS;

static struct sheaf *rcu_loose_sheaf(unsigned node, bool nospin)
{
    struct sheaf *sheaf = sheaf_alloc(RCU_MIXED, RCU_MIXED + RCU_RIDE_WORDS, node, nospin);

    for (unsigned i = 0; !sheaf && i < RCU_SPARES; i++) {
        struct rcu_loose_spare *spare = &rcu_loose_spares[i];
        /* Acquire: the stores of its last user. */
        if (!atomic_exchange_explicit(&spare->taken, true, memory_order_acquire)) {
            sheaf = &spare->sheaf;
            sheaf->size = 0;
        }
    }
    if (sheaf)
        rcu_ride_init(sheaf, RCU_MIXED, RCU_RIDE_LOOSE);
    return sheaf;
}

static void rcu_loose_sheaf_free(struct sheaf *sheaf, bool nospin)
{
    const char *first = (const char *)rcu_loose_spares, *at = (const char *)sheaf;
    struct rcu_loose_spare *spare;

    if (at < first || at >= first + sizeof(rcu_loose_spares)) {
        sheaf_free(sheaf, nospin);
        return;
    }
    spare = &rcu_loose_spares[(size_t)(at - first) / sizeof(rcu_loose_spares[0])];
    atomic_store_explicit(&spare->taken, false, memory_order_release);
}

static bool rcu_loose_put_cell(void *object)
{
    unsigned start = (unsigned)(((uintptr_t)&start >> 12) * 0x9e3779b1u) % RCU_CELLS;

    for (unsigned i = 0; i < RCU_CELLS; i++) {
        _Atomic(void *) *cell = &rcu_loose_cell[(start + i) % RCU_CELLS];
        void *none = NULL;
        /* Release: the user's stores to the object come before the thread that takes it from here. */
        if (!atomic_load_explicit(cell, memory_order_relaxed) &&
            atomic_compare_exchange_strong_explicit(cell, &none, object, memory_order_release,
                                                    memory_order_relaxed)) {
            atomic_fetch_add_explicit(&rcu_loose_cells, 1, memory_order_relaxed);
            return true;
        }
    }
    return false;
}

bool rcu_loose_put(void *object, unsigned node, bool nospin)
{
    if (rcu_loose_put_cell(object))
        return true;
    (void)rcu_loose_collect(node, true, nospin);
    return rcu_loose_put_cell(object);
}

static void rcu_loose_fill(struct sheaf *sheaf)
{
    for (unsigned i = 0; i < RCU_CELLS && sheaf->size < sheaf->capacity; i++) {
        void *object = atomic_load_explicit(&rcu_loose_cell[i], memory_order_relaxed);
        if (!object)
            continue;
        /* Release, too: a thread that finds the cell empty afterwards sees that this mover is counted. */
        object = atomic_exchange_explicit(&rcu_loose_cell[i], NULL, memory_order_acq_rel);
        if (object) {
            atomic_fetch_sub_explicit(&rcu_loose_cells, 1, memory_order_relaxed);
            sheaf->object[sheaf->size++] = object;
        }
    }
}

static bool rcu_loose_any(void)
{
    for (unsigned i = 0; i < RCU_CELLS; i++)
        if (atomic_load_explicit(&rcu_loose_cell[i], memory_order_acquire))
            return true;
    return false;
}

bool rcu_loose_collect(unsigned node, bool all, bool nospin)
{
    uint32_t got = RCU_MIXED;

    if (!all && atomic_load_explicit(&rcu_loose_cells, memory_order_relaxed) < RCU_MIXED)
        return true;
    while (got == RCU_MIXED && rcu_loose_any()) {
        struct sheaf *sheaf = rcu_loose_sheaf(node, nospin);
        unsigned side;
        if (!sheaf)
            return false;
        side = rcu_hand_begin();
        rcu_loose_fill(sheaf);
        got = sheaf->size;
        if (got > 0)
            rcu_hand_push(sheaf);
        else
            rcu_loose_sheaf_free(sheaf, nospin);
        rcu_hand_end(side);
    }
    return true;
}

void rcu_loose_done(struct sheaf *sheaf, bool nospin)
{
    uint32_t n = sheaf->size, from = 0;

    sheaf->size = 0;
    for (uint32_t i = 1; i <= n; i++) {
        struct stook_cache *cache = slab_cache_of(sheaf->object[from]);
        if (i < n && slab_cache_of(sheaf->object[i]) == cache)
            continue;
        node_put(cache, sheaf->object + from, i - from, nospin);
        from = i;
    }
    rcu_loose_sheaf_free(sheaf, nospin);
}
