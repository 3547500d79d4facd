/* SPDX-License-Identifier: MIT */
/*
 * rcu_slabs.pml - empty slabs of type-stable caches wait for a grace period, batch by batch: two threads
 * push slabs, and whoever finds no batch under way begins one.  At the end each slab has gone back.
 *
 * Faults: NO_LOOK      the end of a batch does not look for slabs that came meanwhile
 *         PUSH_LATE    a thread tries to begin a batch before it has pushed its slab
 *         CLEAR_EARLY  the batch is over before its slabs are taken out
 */
byte came, waits, released, done;
bool busy, callback;

/* code: src/reserve/rcu_slabs.c rcu_slabs_begin | while (atomic_load(&rcu_slabs.came) && !atomic_exchange(&rcu_slabs.busy, true)) */
inline slabs_begin()
{
    do
    :: came == 0 -> break
    :: came > 0 ->
        atomic { was = busy; busy = true };
        if
        :: was -> break
        :: else
        fi;
        /* code: src/reserve/rcu_slabs.c rcu_slabs_begin | rcu_slabs.waiting = atomic_exchange(&rcu_slabs.came, NULL) */
        atomic { assert(waits == 0); waits = came; came = 0 };
        if
        :: waits > 0 -> callback = true; break
        :: waits == 0 -> busy = false
        fi
    od
}

proctype slabs(byte n)
{
    bool was;

    do
    :: n == 0 -> break
    :: n > 0 ->
        n--;
#ifdef PUSH_LATE
        slabs_begin();
        came++;
#else
        came++; /* code: src/reserve/rcu_slabs.c rcu_slabs_push | atomic_compare_exchange_weak(&rcu_slabs.came, &next, slab) */
        slabs_begin()
#endif
    od;
    done++
}

/* The RCU, at the end of a grace period. */
active proctype grace()
{
    bool was;

end:
    do
    :: atomic { callback -> callback = false };
#ifdef CLEAR_EARLY
        busy = false;
#endif
        /* code: src/reserve/rcu_slabs.c rcu_slabs_done | rcu_slabs.waiting = NULL */
        atomic { released = released + waits; waits = 0 };
        /* code: src/reserve/rcu_slabs.c rcu_slabs_done | atomic_store(&rcu_slabs.busy, false) */
        busy = false;
#ifndef NO_LOOK
        slabs_begin()
#endif
    od
}

init
{
    atomic { run slabs(2); run slabs(1) };
    done == 2;
    timeout; /* all is quiet */
    assert(released == 3 && came == 0 && waits == 0 && !busy)
}
