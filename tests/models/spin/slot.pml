/* SPDX-License-Identifier: MIT */
/*
 * slot.pml - a slot: pops, pushes and closes of two threads on its CPU, and a thread of another CPU
 * that takes it.  Sequentially consistent; ../aarch64/slot.litmus has the orders.
 *
 * A section goes on only as long as its thread keeps the CPU: whoever is switched out, or interrupted by
 * a fence, is `doomed`, and its next step of the section is the abort.  Outside of sections a thread may be
 * on any CPU.  Each object is always in one place, and at the end the slot is open.
 *
 * Faults: CLOSE_NOT_LAST  an instruction stands behind the compare-and-swap of close (rule 1)
 *         NO_FENCE        the taker reads without a fence (rule 2)
 *         EARLY_READ      the taker reads the size before the fence (rule 2)
 *         EXCHANGE_CLOSE  the owner closes by an exchange outside of a section, from any CPU (rule 3)
 *         OPEN_TWICE      the owner opens before it has moved the spare sheaf
 */
#define CAP 2
#define OBJECTS 3
#define OPS 2
#define DRAINS 1

/* What slot.main is: a sheaf, 0 or 1, or … */
#define NONE 2
#define CLOSED 3

byte main_ = 0, spare = 1; /* spare: NONE if there is none */
byte size[2];
byte object[4]; /* of sheaf m: from m * CAP on */
bool loose[2];  /* a sheaf that nobody has */
bool out[OBJECTS], pool[OBJECTS]; /* with the program; in its slab */
byte done;

byte running;   /* the thread on the slot's CPU */
bool doomed[2];

/* The last label that an abort goes to; each step of a section is one instruction. */
#define STEP(action)                                                                               \
    if                                                                                             \
    :: atomic { !doomed[me] -> action }                                                            \
    :: doomed[me] -> goto aborted                                                                  \
    fi
#define ARM() atomic { running == me -> doomed[me] = false }

active proctype scheduler()
{
end:
    do
    :: atomic { doomed[running] = true; running = 1 - running }
    od
}

proctype thread(byte me)
{
    byte m, n, o, f, k, have = (me == 0 -> 2 : OBJECTS); /* the object that it holds, or OBJECTS */
    byte turn;

again:
    do
    :: turn == OPS -> break
    :: turn < OPS ->
        turn++;
        m = NONE; n = 0; o = 0; f = NONE; k = 0;
        if
        :: have >= OBJECTS ->
            /* code: src/sheaf/slot_sections.h rseq_pop_bulk | STOOK_OP_LOAD_CPU("m") STOOK_OP_LOAD_ROW("m", "slots", STOOK_AREA_SHIFT) */
            ARM();
            STEP(m = main_);
            if
            :: m >= NONE -> goto slow_alloc /* `closed` has size 0 */
            :: else
            fi;
            /* code: src/sheaf/slot_sections.h rseq_pop_bulk | STOOK_OP_LOAD32("n", "m", "8") OP_TAKE("k", "n", "want") */
            STEP(n = size[m]);
            if
            :: n == 0 -> goto slow_alloc
            :: else
            fi;
            STEP(o = object[m * CAP + n - 1]);
            /* code: src/sheaf/slot_sections.h rseq_pop_bulk | STOOK_OP_COMMIT32("n", "m", "8") */
            STEP(size[m] = n - 1; assert(!out[o] && !pool[o]); out[o] = true; have = o);
        :: else ->
            /* code: src/sheaf/slot_sections.h rseq_push_bulk | STOOK_OP_LOAD_CPU("m") STOOK_OP_LOAD_ROW("m", "slots", STOOK_AREA_SHIFT) */
            ARM();
            STEP(m = main_);
            if
            :: m >= NONE -> goto slow_free /* … and capacity 0 */
            :: else
            fi;
            STEP(n = size[m]);
            if
            :: n >= CAP -> goto slow_free
            :: else
            fi;
            /* code: src/sheaf/slot_sections.h rseq_push_bulk | OP_COPY_IN("objects", "k") */
            STEP(object[m * CAP + n] = have);
            /* code: src/sheaf/slot_sections.h rseq_push_bulk | STOOK_OP_COMMIT32("n", "m", "8") */
            STEP(size[m] = n + 1; out[have] = false; have = OBJECTS);
        fi
    od;
    goto last;

aborted: /* a bounded number of tries: an operation is one turn */
    goto again;

slow_free:
    if
    :: true -> /* straight to the slab.  code: src/sheaf/slot_free.c slot_free | node_put(cache, objects + put, n - put, nospin) */
        d_step { assert(out[have] && !pool[have]); out[have] = false; pool[have] = true; have = OBJECTS };
        goto again
    :: true -> goto close
    fi;

slow_alloc: /* a sheaf is fetched before the slot is closed.  code: src/sheaf/slot_alloc.c slot_install | main = slot_close(percpu_offset(cache->index), &slot, nospin) */
    if
    :: atomic { loose[0] -> loose[0] = false; f = 0 }
    :: atomic { loose[1] -> loose[1] = false; f = 1 }
    :: true -> f = NONE
    fi;
    if
    :: f < NONE ->
        d_step {
            size[f] = 0; k = 0;
            do
            :: k == OBJECTS -> break
            :: k < OBJECTS && pool[k] && size[f] < CAP -> pool[k] = false; object[f * CAP + size[f]] = k; size[f] = size[f] + 1; k++
            :: else -> k++
            od;
            k = 0
        }
    :: else
    fi;

close:
#ifdef EXCHANGE_CLOSE
    atomic { m = main_; main_ = CLOSED };
    if
    :: m == CLOSED -> goto not_closed
    :: else
    fi;
#else
    /* code: src/sheaf/slot_sections.h rseq_close | STOOK_OP_BEGIN("m") OP_ABORT_UNLESS_CPU("cpu") OP_COMMIT_SWAP("m", "slot", "closed") */
    ARM();
    if
    :: atomic { !doomed[me] -> m = main_ }
    :: doomed[me] -> goto not_closed
    fi;
    if
    :: m == CLOSED -> goto not_closed
    :: else
    fi;
    /* … exclusive: it fails if main was changed, or the thread interrupted. */
    if
    :: atomic { !doomed[me] && main_ == m -> main_ = CLOSED }
    :: doomed[me] || main_ != m -> goto not_closed
    fi;
#ifdef CLOSE_NOT_LAST
    if
    :: atomic { !doomed[me] -> skip }
    :: doomed[me] -> goto not_closed
    fi;
#endif
#endif
    /* The slot is this thread's, wherever it runs now. */
    if
    :: f < NONE && (m == NONE || size[m] == 0) -> /* code: src/sheaf/slot_alloc.c slot_install | main->size == 0 */
        if
        :: m < NONE -> loose[m] = true
        :: else
        fi;
        m = f; f = NONE
    :: f < NONE && m < NONE && size[m] > 0 && spare == NONE -> spare = f; f = NONE
    :: f == NONE && spare < NONE -> /* code: src/sheaf/slot_alloc.c slot_alloc | slot->spare = slot_real(main) */
        n = spare;
#ifdef OPEN_TWICE
        main_ = n;
#endif
        spare = m;
        m = n
    :: else
    fi;
    /* code: src/sheaf/slot.c slot_open | atomic_store_explicit(&slot->main, main, memory_order_release) */
    main_ = m;
not_closed:
    if
    :: f < NONE -> /* code: src/sheaf/slot_alloc.c slot_install | barn_return(cache, node, full, nospin) */
        d_step {
            k = 0;
            do
            :: k == size[f] -> break
            :: k < size[f] -> assert(!pool[object[f * CAP + k]]); pool[object[f * CAP + k]] = true; k++
            od;
            size[f] = 0; loose[f] = true; f = NONE; k = 0
        }
    :: else
    fi;
    goto again;

last: /* nothing of a thread that is done makes states differ */
    atomic { m = 0; n = 0; o = 0; f = 0; k = 0; done++ }
}

/* A taken sheaf's objects go to the slab, and nobody has it any more. */
#define FLUSH(m, n)                                                                                \
    k = 0;                                                                                         \
    do                                                                                             \
    :: k == n -> break                                                                             \
    :: k < n ->                                                                                    \
        atomic {                                                                                   \
            o = object[m * CAP + k];                                                               \
            assert(!pool[o] && !out[o]);                                                           \
            pool[o] = true;                                                                        \
            k++                                                                                    \
        }                                                                                          \
    od;                                                                                            \
    atomic { size[m] = 0; loose[m] = true }

proctype taker()
{
    byte m, s, n, o, k, turn;

    do
    :: turn == DRAINS -> break
    :: turn < DRAINS ->
        turn++;
        n = 0; o = 0; k = 0; s = NONE;
        /* code: src/sheaf/slot.c slot_take | &slot->main, &main, SHEAF_CLOSED, memory_order_acq_rel, memory_order_relaxed */
        atomic {
            m = main_;
            if
            :: m == CLOSED -> goto closed
            :: else -> main_ = CLOSED
            fi
        };
#ifdef EARLY_READ
        if
        :: m < NONE -> n = size[m]
        :: else
        fi;
#endif
#ifndef NO_FENCE
        /* code: src/sheaf/slot_drain.c slot_drain_some | fenced = count > 0 && (alone || percpu_fence(cpu)) */
        d_step { doomed[0] = true; doomed[1] = true };
#endif
        /* code: src/sheaf/slot_drain.c slot_empty | slot_chain(cache, main, chain) */
        s = spare;
        spare = NONE;
        /* code: src/sheaf/slot_drain.c slot_drain_some | slot_open(slot, fenced ? SHEAF_NONE : main) */
        main_ = NONE;
        /* code: src/sheaf/slot_drain.c slot_flush_taken | sheaf_drop(cache_table[chain->capacity], chain, false) */
        if
        :: m < NONE ->
#ifndef EARLY_READ
            n = size[m];
#endif
            FLUSH(m, n)
        :: else
        fi;
        if
        :: s < NONE -> n = size[s]; FLUSH(s, n)
        :: else
        fi
closed:
        skip
    od;
    atomic { m = 0; s = 0; n = 0; o = 0; k = 0; done++ }
}

init
{
    byte k, i, count;

    d_step {
        object[0] = 0; object[1] = 1;
        out[2] = true; /* thread 0 has it */
        size[0] = 2
    };
    if /* a full sheaf, one with room, or an empty one */
    :: true
    :: size[0] = 1; pool[1] = true
    :: size[0] = 0; pool[0] = true; pool[1] = true
    fi;
    if /* an empty spare one, or none */
    :: true
    :: spare = NONE; loose[1] = true
    fi;
    atomic { run thread(0); run thread(1); run taker() };
    done == 3;
    d_step {
        assert(main_ != CLOSED); /* closed for ever */
        do
        :: k == OBJECTS -> break
        :: k < OBJECTS ->
            count = out[k] + pool[k];
            i = 0;
            do
            :: i == 2 * CAP -> break
            :: i < 2 * CAP ->
                if
                :: object[i] == k && i % CAP < size[i / CAP] && (main_ == i / CAP || spare == i / CAP) -> count++
                :: else
                fi;
                i++
            od;
            assert(count == 1); /* 0: lost */
            k++
        od;
        k = 0; i = 0
    }
}
