/* SPDX-License-Identifier: MIT */
/*
 * stock.pml - a group's stock with a CPU: two threads there take and give by sections, and another one
 * opens and closes it under the groups' lock.  Then the same with a stock that is a word, which a thread of
 * any CPU changes by compare-and-swap.  Sequentially consistent; ../aarch64/stock.litmus has the orders.
 *
 * At the end the bytes that the group is charged are those in use and those in the stock.
 *
 * Faults: NO_FENCE     the bytes of a section's stock are collected without a fence
 *         EARLY_READ   … are read before the fence
 *         NO_CLOSING   the stock keeps its number while it is closed
 *         WORD_HALVES  a word is closed by two stores: its bytes are read, then its number goes
 *         WORD_PLAIN   a word is changed by a load and a store
 *         ONE_KIND     an open word has the number of a section's stock, so a section takes it for one
 *         LOST_RETURN  group_unlock() does not look for returned bytes after it unlocked
 */
#define GROUP 1
#define WORD 2 /* GROUP_STOCK_WORD | the group's number */
#define CLOSING 3
#define BATCH 4
#define OPS 2
#define CHANGES 3

byte number, bytes;
byte charged;      /* under the lock */
byte returned;     /* left by threads that found it held */
bool pending, locked;
byte use[2];       /* in use, by thread: what it will give back */
byte done;
bool plain;        /* the kind: words */

byte running;
bool doomed[2];

#define STEP(action)                                                                               \
    if                                                                                             \
    :: atomic { !doomed[me] -> action }                                                            \
    :: doomed[me] -> goto slow                                                                     \
    fi
#define ARM() atomic { running == me -> doomed[me] = false }

active proctype scheduler()
{
end:
    do
    :: atomic { doomed[running] = true; running = 1 - running }
    od
}

/* code: src/charge/group_table.c group_charge_collect | atomic_exchange_explicit(&group->returned, 0, memory_order_relaxed) */
#define COLLECT()                                                                                  \
    if                                                                                             \
    :: pending -> pending = false; atomic { charged = charged - returned; returned = 0 }           \
    :: !pending                                                                                    \
    fi

/* code: src/charge/group_table.c group_unlock | lock_enter(&group_table.lock, LOCK_GROUPS, true) */
inline unlock()
{
    do
    :: true ->
        COLLECT();
        locked = false;
#ifdef LOST_RETURN
        break
#else
        if
        :: !pending -> break
        :: pending ->
            if
            :: atomic { !locked -> locked = true }
            :: locked -> break
            fi
        fi
#endif
    od
}

proctype thread(byte me)
{
    byte b, turn;

again:
    do
    :: turn == OPS -> break
    :: turn < OPS ->
        turn++;
        b = 0;
        if
        :: use[me] == 0 && !plain -> /* code: src/charge/stock_sections.h rseq_take | OP_LEAVE_UNLESS_EQUAL32("s", "number") */
            ARM();
            STEP(b = number);
            if
            :: b != GROUP -> goto slow
            :: else
            fi;
            STEP(b = bytes);
            if
            :: b < 1 -> goto slow
            :: else
            fi;
            STEP(bytes = b - 1; use[me] = 1)
        :: use[me] > 0 && !plain -> /* code: src/charge/stock_sections.h rseq_give | OP_LEAVE_IF_ABOVE("b", "most") */
            ARM();
            STEP(b = number);
            if
            :: b != GROUP -> goto slow
            :: else
            fi;
            STEP(b = bytes);
            if
            :: b + 1 > 2 * BATCH -> goto slow
            :: else
            fi;
            STEP(bytes = b + 1; use[me] = 0)
        :: plain -> /* code: src/charge/group_stock.h group_stock_word_take | (uint32_t)old != (number | GROUP_STOCK_WORD) || old >> 32 < n */
            b = 255;
            atomic {
                if
                :: number == WORD -> b = bytes
                :: else
                fi
            };
            if
            :: b == 255 || (use[me] == 0 && b == 0) -> goto slow
            :: else
            fi;
#ifdef WORD_PLAIN
            atomic { bytes = (use[me] == 0 -> b - 1 : b + 1); use[me] = 1 - use[me] }
#else
            if
            :: atomic { number == WORD && bytes == b -> bytes = (use[me] == 0 -> b - 1 : b + 1); use[me] = 1 - use[me] }
            :: number != WORD || bytes != b -> goto slow
            fi
#endif
#ifdef ONE_KIND
        :: plain && use[me] == 0 -> /* the section, tried before */
            ARM();
            STEP(b = number);
            if
            :: b != WORD -> goto slow
            :: else
            fi;
            STEP(b = bytes);
            if
            :: b < 1 -> goto slow
            :: else
            fi;
            STEP(bytes = b - 1; use[me] = 1)
#endif
        fi
    od;
    goto last;

slow: /* what is in use goes back to the group itself, or waits for the lock's holder */
    if
    :: use[me] == 0
    :: use[me] > 0 ->
        if
        :: atomic { !locked -> locked = true } -> charged = charged - use[me]; use[me] = 0; unlock()
        :: locked -> /* code: src/charge/group_charge.c group_charge_left | atomic_exchange_explicit(&group_table.pending, true, memory_order_seq_cst) */
            atomic { returned = returned + use[me]; use[me] = 0 };
            pending = true;
            if /* code: src/charge/group_charge.c group_charge_return | locked = group_lock(true) */
            :: atomic { !locked -> locked = true } -> unlock()
            :: locked
            fi
        fi
    fi;
    goto again;

last:
    done++
}

proctype changer()
{
    byte b, turn;

    do
    :: turn == CHANGES -> break
    :: turn < CHANGES ->
        turn++;
        atomic { !locked -> locked = true };
        if
        :: number == 0 -> /* code: src/charge/group_stock.c group_stock_open | atomic_store_explicit(&stock->bytes, n, memory_order_relaxed) */
            charged = charged + BATCH;
            bytes = BATCH;
            number = (plain -> WORD : GROUP)
        :: number == WORD -> /* code: src/charge/group_stock.c group_stock_begin_close | atomic_exchange_explicit(group_stock_word(stock), 0, */
#ifdef WORD_HALVES
            b = bytes;
            atomic { number = 0; bytes = 0 };
#else
            atomic { b = bytes; bytes = 0; number = 0 };
#endif
            charged = charged - b
        :: number == GROUP -> /* code: src/charge/group_stock.c group_stock_begin_close | atomic_store_explicit(&stock->number, GROUP_STOCK_CLOSING, memory_order_relaxed) */
#ifndef NO_CLOSING
            number = CLOSING;
#endif
#ifdef EARLY_READ
            b = bytes;
#endif
#ifndef NO_FENCE
            /* code: src/charge/group_stock.c group_stock_close_cpu | fenced = percpu_fence((unsigned)cpu) */
            d_step { doomed[0] = true; doomed[1] = true };
#endif
            /* code: src/charge/group_stock.c group_stock_close_cpu | took(numbers[i], atomic_exchange_explicit(&stock->bytes, 0, memory_order_relaxed)) */
#ifdef EARLY_READ
            bytes = 0;
#else
            atomic { b = bytes; bytes = 0 };
#endif
            number = 0;
            charged = charged - b
        fi;
        unlock()
    od;
    done++
}

init
{
    if
    :: plain = true
    :: plain = false
    fi;
    d_step { number = (plain -> WORD : GROUP); bytes = BATCH; charged = BATCH };
    atomic { run thread(0); run thread(1); run changer() };
    done == 3;
    d_step {
        assert(!locked && !pending && returned == 0);
        assert(number != CLOSING && (number != 0 || bytes == 0));
        assert(charged == bytes + use[0] + use[1])
    }
}
