/* SPDX-License-Identifier: MIT */
/*
 * rcu_single.c - sheaves for deferred objects that find no slot or no sheaf of their cache, or have no cache.  A thread
 * has no slot if it is not registered for rseq, or if it interrupted the thread that has closed the slot.
 *
 * Such an object has a sheaf of its own: the smallest that has room for the RCU's words.  Nothing here waits or takes
 * a lock that it would have to wait for.  If there is no memory, one of RCU_SPARES static sheaves is used.
 */
#include "base/placed.h"
#include "reserve/rcu.h"

static struct rcu_single_spare {
    _Atomic bool taken;
    union { /* last: clang puts nothing behind a structure that ends in a flexible array */
        struct sheaf sheaf;
        char room[sizeof(struct sheaf) + (1 + RCU_BATCH_WORDS) * sizeof(void *)];
    };
} rcu_single_spares[RCU_SPARES] LARGE_BSS;

struct sheaf *rcu_single_make(void *object, unsigned node, bool nospin)
{
    struct sheaf *sheaf = sheaf_alloc(1, 1 + RCU_BATCH_WORDS, node, nospin);

    for (unsigned i = 0; !sheaf && i < RCU_SPARES; i++) {
        struct rcu_single_spare *spare = &rcu_single_spares[i];
        /* Acquire: the stores of its last user. */
        if (!atomic_load_explicit(&spare->taken, memory_order_relaxed) &&
            !atomic_exchange_explicit(&spare->taken, true, memory_order_acquire))
            sheaf = &spare->sheaf;
    }
    if (sheaf) {
        rcu_batch_init(sheaf, 1, RCU_BATCH_SINGLE);
        sheaf->object[0] = object;
        sheaf->size = 1;
    }
    return sheaf;
}

void rcu_single_free(struct sheaf *sheaf, bool nospin)
{
    const char *first = (const char *)rcu_single_spares, *at = (const char *)sheaf;
    struct rcu_single_spare *spare;

    sheaf->size = 0;
    if (at < first || at >= first + sizeof(rcu_single_spares)) {
        sheaf_free(sheaf, nospin);
        return;
    }
    spare = &rcu_single_spares[(size_t)(at - first) / sizeof(rcu_single_spares[0])];
    atomic_store_explicit(&spare->taken, false, memory_order_release);
}
