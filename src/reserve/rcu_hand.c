/* SPDX-License-Identifier: MIT */
/*
 * From complete sheaves to ops.call: the stack, and the hands of those who carry them between.
 */
#include "base/cancel.h"
#include "base/lock.h"
#include "reserve/rcu.h"

#include <errno.h>

static _Atomic(struct sheaf *) rcu_hand_late;

/* Which of the two counts new hands go to, the counts, and whether somebody waits for one. */
static _Atomic unsigned rcu_hand_side, rcu_hand_hands[2];
static _Atomic bool rcu_hand_waiting;

static __thread struct {
    unsigned hands[2];  /* this thread's */
    bool handing;       /* it is in ops.call */
    _Atomic bool again; /* a handler found that, and left something on the stack */
} rcu_hand_self __attribute__((tls_model("initial-exec")));

unsigned rcu_hand_begin(void)
{
    for (;;) {
        unsigned side = atomic_load(&rcu_hand_side) & 1;
        atomic_fetch_add(&rcu_hand_hands[side], 1);
        rcu_hand_self.hands[side]++;
        /* Either who changes sides after this sees the count, or the change is seen here. */
        if ((atomic_load(&rcu_hand_side) & 1) == side)
            return side;
        rcu_hand_end(side);
    }
}

void rcu_hand_end(unsigned side)
{
    rcu_hand_self.hands[side]--;
    /* What was in hand is where a drain finds it: pairs with the load in rcu_hand_wait(). */
    atomic_fetch_sub(&rcu_hand_hands[side], 1);
}

void rcu_hand_wait(void)
{
    unsigned side, turn = 0;

    while (atomic_exchange(&rcu_hand_waiting, true))
        lock_pause(turn++);
    side = atomic_fetch_add(&rcu_hand_side, 1) & 1;
    for (turn = 0; atomic_load(&rcu_hand_hands[side]) != 0; turn++)
        lock_pause(turn);
    atomic_store(&rcu_hand_waiting, false);
}

void rcu_hand_child(void)
{
    for (unsigned side = 0; side < 2; side++)
        atomic_store(&rcu_hand_hands[side], rcu_hand_self.hands[side]);
    atomic_store(&rcu_hand_waiting, false);
}

void rcu_hand_push(struct sheaf *sheaf)
{
    struct sheaf *next = atomic_load_explicit(&rcu_hand_late, memory_order_relaxed);

    /* Release: the objects.  They are popped all at once, so no pointer here comes back. */
    do
        sheaf->next = next;
    while (!atomic_compare_exchange_weak_explicit(&rcu_hand_late, &next, sheaf,
                                                  memory_order_release, memory_order_relaxed));
}

static struct rcu_ride *rcu_ride_of(struct sheaf *sheaf)
{
    return (struct rcu_ride *)(void *)&sheaf->object[sheaf->capacity];
}

void rcu_hand_over(void)
{
    int saved = errno, cancel;

    if (rcu_hand_self.handing) { /* interrupted in there */
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
        /* Release, too: whoever finds nothing here any more sees this hand. */
        sheaf = atomic_exchange_explicit(&rcu_hand_late, NULL, memory_order_acq_rel);
        while (sheaf) {
            struct sheaf *next = sheaf->next;
            sheaf->next = NULL;
            rcu_ops.call(&rcu_ride_of(sheaf)->head, rcu_done);
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

bool rcu_hand_any(void)
{
    return atomic_load_explicit(&rcu_hand_late, memory_order_relaxed) != NULL;
}
