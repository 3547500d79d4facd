/* SPDX-License-Identifier: MIT */
/*
 * rcu_full.c - the program's RCU, the stack of full sheaves that wait for ops.call, and the counts of movers (rcu.h).
 */
#include "base/cancel.h"
#include "base/context.h"
#include "base/lock.h"
#include "reserve/rcu.h"

struct stook_rcu_ops rcu_ops;
static _Atomic(struct sheaf *) rcu_full; /* the stack */

/* The side that new movers are counted on, both counts, and whether a thread waits for one to be zero. */
static _Atomic unsigned rcu_pass_side, rcu_pass_counts[2];
static _Atomic bool rcu_pass_waiting;

static __thread unsigned rcu_pass_own[2]
    __attribute__((tls_model("initial-exec"))); /* this thread's */

unsigned rcu_pass_begin(void)
{
    for (;;) {
        unsigned side = atomic_load(&rcu_pass_side) & 1;
        atomic_fetch_add(&rcu_pass_counts[side], 1);
        rcu_pass_own[side]++;
        /* A thread that changes the side after this sees the count.  If it changed the side before, this thread sees
         * that, and is counted again on the other side. */
        if ((atomic_load(&rcu_pass_side) & 1) == side)
            return side;
        rcu_pass_end(side);
    }
}

void rcu_pass_end(unsigned side)
{
    rcu_pass_own[side]--;
    /* The objects are at the next station, where a drain finds them.  Pairs with the load in rcu_pass_wait(). */
    atomic_fetch_sub(&rcu_pass_counts[side], 1);
}

void rcu_pass_wait(void)
{
    unsigned side, turn = 0;

    while (atomic_exchange(&rcu_pass_waiting, true))
        lock_pause(turn++);
    side = atomic_fetch_add(&rcu_pass_side, 1) & 1;
    for (turn = 0; atomic_load(&rcu_pass_counts[side]) != 0; turn++)
        lock_pause(turn);
    atomic_store(&rcu_pass_waiting, false);
}

void rcu_pass_child(void)
{
    for (unsigned side = 0; side < 2; side++)
        atomic_store(&rcu_pass_counts[side], rcu_pass_own[side]);
    atomic_store(&rcu_pass_waiting, false);
}

void rcu_full_push(struct sheaf *sheaf)
{
    struct sheaf *next = atomic_load_explicit(&rcu_full, memory_order_relaxed);

    /* Release: the sheaf's objects.  The stack is taken whole, so no ABA is possible. */
    do
        sheaf->next = next;
    while (!atomic_compare_exchange_weak_explicit(&rcu_full, &next, sheaf, memory_order_release,
                                                  memory_order_relaxed));
}

struct sheaf *rcu_full_pop_all(void)
{
    /* Release, too: a thread that finds the stack empty afterwards sees that this mover is counted. */
    return atomic_exchange_explicit(&rcu_full, NULL, memory_order_acq_rel);
}

bool rcu_outside(void (*function)(void))
{
    int cancel;

    if (context_self()->depth > 1 || context_holds_all())
        return false;
    context_leave();
    cancel = cancel_off();
    function();
    cancel_on(cancel);
    context_enter();
    return true;
}

void rcu_batch_init(struct sheaf *sheaf, uint32_t capacity, uint32_t node)
{
    struct rcu_batch *batch = (struct rcu_batch *)(void *)&sheaf->object[capacity];

    sheaf->capacity = capacity;
    batch->node = node;
    batch->capacity = capacity;
}
