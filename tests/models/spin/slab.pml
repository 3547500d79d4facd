/* SPDX-License-Identifier: MIT */
/*
 * slab.pml - one slab's state word, and the lists of its node: frees with and without the lock, a
 * handler's free that only tries it, and a thread that takes the freelist and returns a surplus.
 *
 * The word is {head, in use, pending}; its sequence number is left out: a word that comes back is taken
 * for unchanged here, and nothing goes wrong.  Checked: the slab is never put onto a list where it is on one,
 * never touched after it was given back; when the lock is dropped, it is on the list that its word says,
 * unless it is pending; no object is handed out twice; at the end nothing is lost or pending.
 *
 * Faults: REF002          the race of the kernel's list, whose report is quoted in docs/models.md: a free to a
 *                         slab that is full takes no lock and puts it onto a list, while the thread that made
 *                         it full has not taken it off the partial list yet
 *         DROP_EARLY      the taker drops the lock between the two
 *         EMPTY_UNLOCKED  the push that makes a slab empty needs no lock
 *         REST_UNLOCKED   a surplus returns by one compare-and-swap, and the list's turn comes after
 *         FINISH_BLIND    the end of "pending" does not look whether the slab is on a list already
 */
#define N 3    /* objects; N as an index: none */
#define TURNS 2

byte head = N, inuse = N;
bool pending;
byte link[N];
bool on_partial, on_empty, gone;
bool held[N]; /* with the program, or in the hands of the taker */
bool locked;
bool removing; /* its taker has made it full, and has not taken it off the list yet */
bool leaving; /* on no list, in the hands of the thread that gives it back */
byte done;

#ifdef REF002
#define REF002_ONLY true /* of all that follows from this fault, that race is to be found */
#else
#define REF002_ONLY false
#endif
#define LOCK() atomic { !locked -> locked = true }
/* The lists agree with the word: code: src/slab/slab.h slab_word | (uint64_t)(head & 0xffff) */
#if defined(REF002) || defined(EMPTY_UNLOCKED) || defined(REST_UNLOCKED)
#define AGREES true /* these must be found by what happens later */
#else
#define AGREES (on_partial == (head != N && inuse > 0) && on_empty == (inuse == 0))
#endif
#define DROP()                                                                                     \
    atomic {                                                                                       \
        assert(pending || leaving || gone || AGREES); \
        locked = false                                                                             \
    }
#define READ()                                                                                     \
    atomic {                                                                                       \
        assert(REF002_ONLY || !gone);                                                              \
        h = head; u = inuse; p = pending                                                           \
    }
#define SAME (head == h && inuse == u && pending == p)

/* code: src/slab/node_steps.h node_add | list_add(list, &slab->link) */
#define ADD_PARTIAL()                                                                              \
    atomic {                                                                                       \
        assert(!removing);                                                                         \
        assert(REF002_ONLY || (!gone && !on_partial && !on_empty));                                \
        on_partial = true                                                                          \
    }
/* code: src/slab/node_steps.h node_retire | if (list_linked(&slab->link)) */
#define RETIRE()                                                                                   \
    assert(REF002_ONLY || (!gone && !on_empty && inuse == 0));                                     \
    on_partial = false;                                                                            \
    if                                                                                             \
    :: on_empty = true /* there are few, or a handler */                                           \
    :: !nospin -> leave = true; leaving = true                                                                     \
    fi
/* code: src/slab/node_steps.h node_drop | slab_unmake(cache, gone) */
#define UNMAKE()                                                                                   \
    if                                                                                             \
    :: leave -> atomic { assert(REF002_ONLY || (!gone && inuse == 0 && !on_partial && !on_empty)); gone = true; leave = false; leaving = false } \
    :: else                                                                                        \
    fi

/* code: src/slab/node_steps.h node_update_lists | if (slab_flags(word) & SLAB_PENDING) */
inline update_lists(count, flag)
{
    if
    :: flag
    :: !flag && count == 0 -> RETIRE()
    :: !flag && count > 0 && !on_partial -> ADD_PARTIAL()
    :: else
    fi
}

/* code: src/slab/node_pending.c node_finish_pending | slab_flags(word) & ~(uint32_t)SLAB_PENDING) */
inline finish_pending()
{
    LOCK();
    READ();
    do
    :: atomic { SAME -> pending = false; break }
    :: !SAME -> READ()
    od;
    if
    :: u == 0 -> RETIRE()
#ifdef FINISH_BLIND
    :: u > 0 && h != N -> ADD_PARTIAL()
    :: u > 0 && h == N
#else
    :: u > 0 && h != N && !on_partial -> ADD_PARTIAL()
    :: u > 0 && (h == N || on_partial)
#endif
    fi;
    DROP();
    UNMAKE()
}

/* code: src/slab/node_put.c node_needs_lock | slab_head(word) == SLAB_NONE || slab_inuse(pushed) == 0 */
#ifdef REF002
#define NEEDS_LOCK (!p && u == 1)
#elif defined(EMPTY_UNLOCKED)
#define NEEDS_LOCK (!p && h == N)
#else
#define NEEDS_LOCK (!p && (h == N || u == 1))
#endif

/* code: src/slab/node_put.c node_publish | if (!node_push(cache, set, list, false)) */
/* … of which this is the same without the lock, until it needs it: code: src/slab/node_put.c node_put_one | if (node_needs_lock(word, pushed)) { */
inline publish(o)
{
    mine = false; defer = false;
    READ();
    do
    :: !mine && !defer && NEEDS_LOCK ->
        if
        :: !nospin -> LOCK(); mine = true
        :: nospin && u > 1 -> /* only tried */
            if
            :: atomic { !locked -> locked = true }; mine = true
            :: locked -> defer = true
            fi
        :: nospin && u == 1 -> defer = true
        fi;
        if
        :: mine -> READ()
        :: else
        fi
    :: mine || defer || !NEEDS_LOCK ->
        assert(u > 0);
        link[o] = h; /* code: src/slab/node_put.c node_prepare | slab_set_link(cache, slab, list->tail, slab_head(word)) */
        if
        :: atomic {
               SAME ->
               assert(!gone);
               held[o] = false;
               inuse = u - 1;
               head = (mine && u == 1 && !p -> N : o);
               pending = p || defer
           };
           break
        :: !SAME -> defer = false; READ()
        fi
    od;
    if
    :: mine -> update_lists(u - 1, p); DROP(); UNMAKE()
    :: !mine && defer -> finish_pending() /* when the thread leaves the library: code: src/slab/node_pending.c node_finish_chain | node_finish_pending(slab) */
#ifdef REF002
    :: !mine && !defer && h == N && !p -> ADD_PARTIAL()
#endif
#ifdef EMPTY_UNLOCKED
    :: !mine && !defer && u == 1 && !p -> RETIRE(); UNMAKE()
#endif
    :: else
    fi;
    mine = false; defer = false
}

proctype freer(byte o; bool nospin)
{
    byte h, u;
    bool p, mine, defer, leave; /* leave: this thread gives the slab back when it has dropped the lock */

    publish(o);
    done++
}

/* Takes all free objects, keeps one at least, returns the others, and frees what it kept. */
proctype taker(bool nospin)
{
    byte h, u, first, count, tail, k, turn;
    bool p, mine, defer, leave;

    do
    :: turn == TURNS -> break
    :: turn < TURNS ->
        turn++;
        count = 0;
        LOCK();
        if
        :: on_partial -> /* code: src/slab/node.c node_detach | while (!node_swap(cache, slab, &word, node_emptied(cache, word))); */
            READ();
            do
            :: atomic { SAME -> head = N; inuse = N; removing = true; break }
            :: !SAME -> READ()
            od;
#ifdef DROP_EARLY
            locked = false;
#endif
            /* code: src/slab/node.c node_take_lists | node_remove(&node->nr_partial, slab) */
            atomic { on_partial = false; removing = false };
#ifdef DROP_EARLY
            LOCK();
#endif
            first = h;
            count = N - u
        :: on_empty -> /* code: src/slab/node.c node_take_empty | node_remove(&node->nr_empty, slab) */
            on_empty = false;
            assert(!gone && inuse == 0);
            d_step { head = N; inuse = N; link[0] = 1; link[1] = 2; link[2] = N };
            first = 0;
            count = N
        :: else
        fi;
        DROP();
        if
        :: count > 0 ->
            k = 0;
            tail = first;
            d_step { /* code: src/slab/node.c node_emit | index = slab_follow(cache, slab, index, limit) */
                do
                :: k == count -> break
                :: k < count -> assert(first < N && !held[first]); held[first] = true; first = link[first]; k++
                od;
                first = tail;
                k = 0
            }
        :: else
        fi;
        if
        :: count > 1 -> /* the first is kept: code: src/slab/node.c node_emit | node_put_rest(cache, slab, index, taken->count - count, nospin) */
            k = first;
            first = link[first];
            tail = (count == 2 -> first : link[first]);
            mine = false;
#ifndef REST_UNLOCKED
            if
            :: atomic { !locked -> locked = true }; mine = true
            :: nospin && locked /* only tried */
            fi;
#endif
            READ();
            do
            :: true ->
                link[tail] = h; /* code: src/slab/node_put.c node_prepare | node_find_tail(cache, list, slab_objects(cache, word)); */
                if
                :: atomic {
                       SAME ->
                       held[first] = false;
                       held[tail] = false;
                       head = first;
                       inuse = u - (count - 1);
#ifndef REST_UNLOCKED
                       defer = !mine && !p;
                       pending = p || defer
#endif
                   };
                   break
                :: !SAME -> READ()
                fi
            od;
#ifdef REST_UNLOCKED
            if
            :: h == N && u > count - 1 && !p -> ADD_PARTIAL()
            :: else
            fi;
#else
            if
            :: mine -> update_lists(u - (count - 1), p); DROP(); UNMAKE()
            :: !mine && defer -> finish_pending() /* code: src/slab/node_put.c node_publish | node_pend(cache, node, slab, many) */
            :: else
            fi;
#endif
            first = k
        :: else
        fi;
        if
        :: count > 0 -> publish(first)
        :: else
        fi
    od;
    done++
}

init
{
    bool nospin;

    if
    :: nospin = true
    :: nospin = false
    fi;
    d_step { held[0] = true; held[1] = true; held[2] = true };
    atomic { run freer(0, false); run freer(1, false); run freer(2, true); run taker(nospin) };
    done == 4;
    d_step {
        assert(!locked && !pending);
        assert(REF002_ONLY || (inuse == 0 && (gone || on_empty) && !on_partial));
        assert(!held[0] && !held[1] && !held[2])
    }
}
