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
 *         END_LATE        close stores end behind its commit
 *         TOP_FIRST       a pop loads top before begin
 *         BEGIN_FIRST     the owner opens begin before it stores top
 *         REOPEN_TOP      who took without a fence stores top all the same
 *         REOPEN_END      who took without a fence ends pushes, and lets them in again
 */
#define CAP 2
#define OBJECTS 3
#define OPS 2
#define DRAINS 1

/* No sheaf; sheaves are 0 and 1. */
#define NONE 2

/* Addresses: of a sheaf's array, and of the object that lies at one; begin of a closed slot. */
#define ARRAY(m) (10 + 10 * (m))
#define SHEAF(at) (at / 10 - 1)
#define OBJECT(at) object[(at / 10 - 1) * CAP + at % 10]
#define CLOSED 255

byte begin_ = 10, top_ = 12, end_ = 12; /* all 0: no sheaf */
byte spare = 1; /* NONE if there is none */
byte size[2];   /* of a main sheaf only while the slot is closed */
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
    byte m, n, o, f, k, t, have = (me == 0 -> 2 : OBJECTS); /* the object that it holds, or OBJECTS */
    byte turn;

again:
    do
    :: turn == OPS -> break
    :: turn < OPS ->
        turn++;
        m = NONE; n = 0; o = 0; f = NONE; k = 0; t = 0;
        if
        :: have >= OBJECTS ->
            ARM();
#ifdef TOP_FIRST
            STEP(t = top_);
#endif
            /* code: src/sheaf/slot_sections.h rseq_pop_bulk | STOOK_OP_LOAD_GATE("n", "m", "0") OP_TAKE("k", "n", "want", "m", "8") */
            STEP(n = begin_);
#ifndef TOP_FIRST
            /* code: src/percpu/ops_aarch64.h OP_TAKE | "ldr x13, [%[" m "], #" top "]\n\t" */
            STEP(t = top_);
#endif
            if
            :: t <= n -> goto slow_alloc
            :: else
            fi;
            STEP(o = OBJECT((t - 1)));
            /* code: src/sheaf/slot_sections.h rseq_pop_bulk | STOOK_OP_COMMIT("n", "m", "8") */
            STEP(top_ = t - 1; assert(!out[o] && !pool[o]); out[o] = true; have = o);
        :: else ->
            ARM();
            /* code: src/sheaf/slot_sections.h rseq_push_bulk | STOOK_OP_LOAD_GATE("n", "m", "16") OP_FIT("k", "n", "have", "m", "8") */
            STEP(n = end_);
            STEP(t = top_);
            if
            :: t >= n -> goto slow_free
            :: else
            fi;
            /* code: src/sheaf/slot_sections.h rseq_push_bulk | OP_COPY_IN("objects", "k") */
            STEP(OBJECT(t) = have);
            /* code: src/sheaf/slot_sections.h rseq_push_bulk | STOOK_OP_COMMIT("n", "m", "8") */
            STEP(top_ = t + 1; out[have] = false; have = OBJECTS);
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

slow_alloc: /* a sheaf is fetched before the slot is closed.  code: src/sheaf/slot_alloc.c slot_install | main = slot_close(call->offset, &slot, call->nospin) */
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
    atomic { n = begin_; begin_ = CLOSED };
    if
    :: n == CLOSED -> goto not_closed
    :: else
    fi;
    end_ = 0;
#else
    /* code: src/sheaf/slot_sections.h rseq_close | STOOK_OP_BEGIN("m") OP_ABORT_UNLESS_CPU("cpu") OP_LEAVE_IF_EQUAL("slot", "closed") */
    ARM();
    if
    :: atomic { !doomed[me] -> n = begin_ }
    :: doomed[me] -> goto not_closed
    fi;
    if
    :: n == CLOSED -> goto not_closed
    :: else
    fi;
#ifndef END_LATE
    /* code: src/sheaf/slot_sections.h rseq_close | OP_STORE_NULL("slot", "16") OP_COMMIT_SWAP("m", "slot", "closed") */
    if
    :: atomic { !doomed[me] -> end_ = 0 }
    :: doomed[me] -> goto not_closed
    fi;
#endif
    /* … exclusive: it fails if begin was changed, or the thread interrupted. */
    if
    :: atomic { !doomed[me] && begin_ == n -> begin_ = CLOSED }
    :: doomed[me] || begin_ != n -> goto not_closed
    fi;
#ifdef END_LATE
    end_ = 0;
#endif
#ifdef CLOSE_NOT_LAST
    if
    :: atomic { !doomed[me] -> skip }
    :: doomed[me] -> goto not_closed
    fi;
#endif
#endif
    /* code: src/sheaf/slot.c slot_close_on | held = slot_measure(slot, slot_main(begin)) */
    if
    :: n == 0 -> m = NONE
    :: else -> m = SHEAF(n); size[m] = top_ - n
    fi;
    /* The slot is this thread's, wherever it runs now. */
    if
    :: f < NONE && (m == NONE || size[m] == 0) -> /* code: src/sheaf/slot_alloc.c slot_install | main->size == 0 */
        if
        :: m < NONE -> loose[m] = true
        :: else
        fi;
        m = f; f = NONE
    :: f < NONE && m < NONE && size[m] > 0 && spare == NONE -> spare = f; f = NONE
    :: f == NONE && spare < NONE -> /* code: src/sheaf/slot_steps.h slot_swap | slot->spare = slot_real(main) */
        n = spare;
#ifdef OPEN_TWICE
        top_ = ARRAY(n) + size[n]; end_ = ARRAY(n) + CAP; begin_ = ARRAY(n);
#endif
        spare = m;
        m = n
    :: else
    fi;
    /* code: src/sheaf/slot.c slot_open | atomic_store_explicit(&slot->top, none ? NULL : main->object + main->size, */
    n = (m == NONE -> 0 : ARRAY(m));
#ifdef BEGIN_FIRST
    begin_ = n;
#endif
    top_ = (m == NONE -> 0 : n + size[m]);
    /* code: src/sheaf/slot.c slot_open | atomic_store_explicit(&slot->end, none ? NULL : main->object + main->capacity, */
    end_ = (m == NONE -> 0 : n + CAP);
    /* code: src/sheaf/slot.c slot_reopen | atomic_store_explicit(&slot->begin, main == SHEAF_NONE ? NULL : main->object, memory_order_release) */
    begin_ = n;
not_closed:
    if
    :: f < NONE -> /* code: src/sheaf/slot_alloc.c slot_install | barn_return(cache, call->node, out, call->nospin) */
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
    atomic { m = 0; n = 0; o = 0; f = 0; k = 0; t = 0; done++ }
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
        /* code: src/sheaf/slot.c slot_take | &slot->begin, &begin, SLOT_CLOSED, memory_order_acq_rel, memory_order_relaxed */
        atomic {
            m = begin_;
            if
            :: m == CLOSED -> goto closed
            :: else -> begin_ = CLOSED
            fi
        };
        if
        :: true -> end_ = 0
        :: true -> /* … or as a fork, which reads nothing, and needs no fence */
#ifdef REOPEN_TOP
            n = top_;
            top_ = n;
#endif
#ifdef REOPEN_END
            end_ = 0;
            end_ = (m == 0 -> 0 : m + CAP);
#endif
            /* code: src/sheaf/slot_drain.c slot_open_taken | slot_reopen(slot) */
            begin_ = m;
            goto closed
        fi;
#ifdef EARLY_READ
        n = top_ - m;
#endif
#ifndef NO_FENCE
        /* code: src/sheaf/slot_drain.c slot_drain_cpu | fenced = alone || percpu_fence(cpu) */
        d_step { doomed[0] = true; doomed[1] = true };
#endif
        /* code: src/sheaf/slot_drain.c slot_drain_cpu | slot_empty(cache, slot, slot_taken(slot), &chain) */
        if
        :: m == 0 -> m = NONE
        :: else ->
#ifndef EARLY_READ
            n = top_ - m;
#endif
            m = SHEAF(m);
            size[m] = n
        fi;
        /* code: src/sheaf/slot_drain.c slot_empty | slot_chain(cache, main, chain) */
        s = spare;
        spare = NONE;
        /* code: src/sheaf/slot_drain.c slot_drain_cpu | slot_open(slot, SHEAF_NONE) */
        top_ = 0;
        end_ = 0;
        begin_ = 0;
        /* code: src/sheaf/slot_drain.c slot_flush_taken | sheaf_drop(cache_table[chain->capacity], chain, false) */
        if
        :: m < NONE ->
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
        out[2] = true /* thread 0 has it */
    };
    if /* a full sheaf, one with room, or an empty one */
    :: true
    :: top_ = 11; pool[1] = true
    :: top_ = 10; pool[0] = true; pool[1] = true
    fi;
    if /* an empty spare one, or none */
    :: true
    :: spare = NONE; loose[1] = true
    fi;
    atomic { run thread(0); run thread(1); run taker() };
    done == 3;
    d_step {
        assert(begin_ != CLOSED); /* closed for ever */
        if
        :: begin_ > 0 -> size[SHEAF(begin_)] = top_ - begin_
        :: else
        fi;
        do
        :: k == OBJECTS -> break
        :: k < OBJECTS ->
            count = out[k] + pool[k];
            i = 0;
            do
            :: i == 2 * CAP -> break
            :: i < 2 * CAP ->
                if
                :: object[i] == k && i % CAP < size[i / CAP] && (begin_ == ARRAY(i / CAP) || spare == i / CAP) -> count++
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
