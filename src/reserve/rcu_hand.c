/* SPDX-License-Identifier: MIT */
/*
 * rcu_hand.c - passes the sheaves of the stack to ops.call.
 */
#include "base/cancel.h"
#include "reserve/rcu.h"

#include <errno.h>

static __thread struct {
    bool handing;       /* this thread is in ops.call */
    _Atomic bool again; /* a signal handler interrupted it there, and left a sheaf on the stack */
} rcu_hand_self __attribute__((tls_model("initial-exec")));

static struct rcu_ride *rcu_ride_of(struct sheaf *sheaf)
{
    return (struct rcu_ride *)(void *)&sheaf->object[sheaf->capacity];
}

void rcu_hand_over(void (*done)(struct stook_rcu_head *head))
{
    int saved = errno, cancel;

    if (rcu_hand_self.handing) { /* a handler that interrupted the loop below */
        atomic_store_explicit(&rcu_hand_self.again, true, memory_order_relaxed);
        return;
    }
    cancel = cancel_off();
    do {
        struct sheaf *sheaf;
        unsigned side;
        atomic_store_explicit(&rcu_hand_self.again, false, memory_order_relaxed);
        rcu_hand_self.handing = true;
        atomic_signal_fence(memory_order_seq_cst);
        side = rcu_hand_begin();
        sheaf = rcu_hand_pop_all();
        while (sheaf) {
            struct sheaf *next = sheaf->next;
            sheaf->next = NULL;
            rcu_ops.call(&rcu_ride_of(sheaf)->head, done);
            sheaf = next;
        }
        rcu_hand_end(side);
        atomic_signal_fence(memory_order_seq_cst);
        rcu_hand_self.handing = false;
        atomic_signal_fence(memory_order_seq_cst);
        rcu_slabs_begin();
    } while (atomic_load_explicit(&rcu_hand_self.again, memory_order_relaxed));
    cancel_on(cancel);
    errno = saved;
}
