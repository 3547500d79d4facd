/* SPDX-License-Identifier: MIT */
/*
 * rcu.pml - deferred frees on their way to the RCU: threads push complete sheaves and hand the stack over,
 * others drain.  Sequentially consistent; ../aarch64/rcu.litmus has the orders.
 *
 * A drain that has come to its barrier finds every sheaf that was deferred before it began handed to
 * ops.call.  No sheaf is handed over twice, and at the end none is left.
 *
 * Faults: NO_HAND      a thread that takes the stack holds no hand
 *         LATE_BEGIN   … or begins it after it has popped
 *         NO_RECHECK   a hand does not look whether the side changed while it was counted
 *         NO_WAIT      a drain hands over, and does not wait for others' hands
 *         EARLY_WAIT   … or waits before it hands over only: a taker's sheaf comes to the stack later
 *         TAKE_UNHELD  a thread takes a slot's rcu sheaf without a hand
 */
#define SHEAVES 2

bool slot[SHEAVES];   /* still in its CPU's slot */
bool stack[SHEAVES], called[SHEAVES];
byte side, hands[2];
bool waiting;
byte done;

#define POP(mine)                                                                                  \
    atomic {                                                                                       \
        k = 0;                                                                                     \
        do                                                                                         \
        :: k == SHEAVES -> break                                                                   \
        :: k < SHEAVES -> mine[k] = stack[k]; stack[k] = false; k++                                \
        od;                                                                                        \
        k = 0                                                                                      \
    }

/* code: src/reserve/rcu_full.c rcu_pass_begin | atomic_fetch_add(&rcu_pass_counts[side], 1) */
inline begin(s)
{
    do
    :: true ->
        s = side % 2;
        hands[s]++;
#ifdef NO_RECHECK
        break
#else
        /* code: src/reserve/rcu_full.c rcu_pass_begin | if ((atomic_load(&rcu_pass_side) & 1) == side) */
        if
        :: side % 2 == s -> break
        :: side % 2 != s -> hands[s]--
        fi
#endif
    od
}

/* code: src/reserve/rcu.c rcu_submit | side = rcu_pass_begin() */
inline hand_over()
{
#if defined(NO_HAND)
    POP(mine);
#elif defined(LATE_BEGIN)
    POP(mine);
    begin(s);
#else
    begin(s);
    /* code: src/reserve/rcu.c rcu_submit | sheaf = rcu_full_pop_all() */
    POP(mine);
#endif
    k = 0;
    do
    :: k == SHEAVES -> break
    :: k < SHEAVES && mine[k] -> /* code: src/reserve/rcu.c rcu_submit | rcu_ops.call(&rcu_batch_of(sheaf)->head, rcu_done) */
        atomic { assert(!called[k]); called[k] = true; mine[k] = false };
        k++
    :: k < SHEAVES && !mine[k] -> k++
    od;
    k = 0;
#ifndef NO_HAND
    /* code: src/reserve/rcu.c rcu_submit | rcu_pass_end(side) */
    hands[s]--
#endif
}

/* code: src/reserve/rcu_full.c rcu_pass_wait | side = atomic_fetch_add(&rcu_pass_side, 1) & 1 */
inline wait()
{
    atomic { !waiting -> waiting = true };
    atomic { s = side % 2; side = (side + 1) % 2 };
    hands[s] == 0;
    waiting = false
}

/* The last object of a sheaf: onto the stack while the slot is closed, then over. */
proctype deferrer(byte i)
{
    byte k, s;
    bool mine[SHEAVES];

    /* code: src/reserve/rcu.c rcu_put | rcu_full_push(sheaf) */
    atomic {
        if
        :: slot[i] -> slot[i] = false; stack[i] = true
        :: else
        fi
    };
    hand_over();
    done++
}

/* Takes the rcu sheaf of another CPU's slot, fences, and pushes it: a drain, or a cache that is destroyed. */
proctype drainer()
{
    byte k, s, i;
    bool mine[SHEAVES], before[SHEAVES], taken;

    d_step { before[0] = true; before[1] = true }; /* both were deferred before: in a slot, or further */
    /* code: src/reserve/rcu.c rcu_take_slots | side = rcu_pass_begin() */
    do
    :: i == SHEAVES -> break
    :: i < SHEAVES ->
#ifndef TAKE_UNHELD
        begin(s);
#endif
        atomic { taken = slot[i]; slot[i] = false };
        if
        :: taken -> skip; stack[i] = true /* a fence lies between */
        :: else
        fi;
#ifndef TAKE_UNHELD
        hands[s]--;
#endif
        i++
    od;
#ifndef NO_WAIT
    /* code: src/reserve/rcu.c rcu_wait | rcu_pass_wait(); */
    wait();
#endif
    hand_over();
#if !defined(NO_WAIT) && !defined(EARLY_WAIT)
    /* code: src/reserve/rcu.c rcu_wait | rcu_pass_wait(); */
    wait();
#endif
    /* code: src/reserve/rcu.c rcu_wait | rcu_outside(rcu_ops.barrier) */
    atomic { assert(called[0] && called[1]) };
    done++
}

init
{
    d_step { slot[0] = true; slot[1] = true };
    atomic { run deferrer(0); run drainer(); run drainer() };
    done == 3;
    d_step {
        assert(called[0] && called[1]);
        assert(!stack[0] && !stack[1] && hands[0] == 0 && hands[1] == 0 && !waiting)
    }
}
