/* SPDX-License-Identifier: MIT */
/*
 * rcu_ops.c - the base of deferred frees: the program's RCU, the stack of full sheaves that wait for ops.call, and the
 * counts of movers (rcu.h).
 */
#include "base/cancel.h"
#include "base/context.h"
#include "base/lock.h"
#include "reserve/rcu.h"

struct stook_rcu_ops rcu_ops;
static _Atomic(struct sheaf *) rcu_hand_late;

/* The side that new movers are counted on, both counts, and whether a thread waits for one to be zero. */
static _Atomic unsigned rcu_hand_side, rcu_hand_hands[2];
static _Atomic bool rcu_hand_waiting;

static __thread unsigned rcu_hand_own[2]
    __attribute__((tls_model("initial-exec"))); /* this thread's */

unsigned rcu_hand_begin(void)
{
    for (;;) {
        unsigned side = atomic_load(&rcu_hand_side) & 1;
        atomic_fetch_add(&rcu_hand_hands[side], 1);
        rcu_hand_own[side]++;
        /* A thread that changes the side after this sees the count.  If it changed the side before, this thread sees
         * that, and is counted again on the other side. */
        if ((atomic_load(&rcu_hand_side) & 1) == side)
            return side;
        rcu_hand_end(side);
    }
}

void rcu_hand_end(unsigned side)
{
    rcu_hand_own[side]--;
    /* The objects are at the next station, where a drain finds them.  Pairs with the load in rcu_hand_wait(). */
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
        atomic_store(&rcu_hand_hands[side], rcu_hand_own[side]);
    atomic_store(&rcu_hand_waiting, false);
}

void rcu_hand_push(struct sheaf *sheaf)
{
    struct sheaf *next = atomic_load_explicit(&rcu_hand_late, memory_order_relaxed);

    /* Release: the sheaf's objects.  The stack is taken whole, so no ABA is possible. */
    do
        sheaf->next = next;
    while (!atomic_compare_exchange_weak_explicit(&rcu_hand_late, &next, sheaf,
                                                  memory_order_release, memory_order_relaxed));
}

struct sheaf *rcu_hand_pop_all(void)
{
    /* Release, too: a thread that finds the stack empty afterwards sees that this mover is counted. */
    return atomic_exchange_explicit(&rcu_hand_late, NULL, memory_order_acq_rel);
}

bool rcu_hand_any(void)
{
    return atomic_load_explicit(&rcu_hand_late, memory_order_relaxed) != NULL;
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

void rcu_ride_init(struct sheaf *sheaf, uint32_t capacity, uint32_t node)
{
    struct rcu_ride *ride = (struct rcu_ride *)(void *)&sheaf->object[capacity];

    sheaf->capacity = capacity;
    ride->node = node;
    ride->capacity = capacity;
}
