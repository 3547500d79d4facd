/* SPDX-License-Identifier: MIT */
/*
 * barn.pml - a barn: full sheaves are put, full ones are taken for empty ones, and the capacity of the
 * cache's sheaves changes meanwhile.  Sequentially consistent; ../aarch64/barn.litmus has the orders.
 *
 * A sheaf has one owner: a thread, one of the two lists, or nobody (freed).  The full list is never longer
 * than its limit, and its count is right when the lock is free.  When all is over no empty sheaf of an old
 * capacity is kept.
 *
 * Faults: NO_LOCK        a sheaf is taken without the lock
 *         KEPT_TWICE     the caller keeps the empty sheaf that it gave in exchange
 *         LIMIT_OUTSIDE  the limit is looked at before the lock is taken
 *         NO_RECHECK     the capacity is looked at before the lock is taken only
 *         REFUSED_LOST   a refused sheaf is taken for one that was taken in
 */
#define SHEAVES 4
#define NONE 255
#define LIMIT 1
#define TURNS 2
/* Owners beside the threads 0 to 3. */
#define FULL 10
#define EMPTY 11
#define FREED 12

byte owner[SHEAVES], next[SHEAVES], size[SHEAVES], capacity[SHEAVES];
byte fulls = NONE, empties = NONE, nr_full, nr_empty;
byte cache_capacity = 1;
bool locked;
byte done;

#define LOCK() atomic { !locked -> locked = true }
#define DROP()                                                                                     \
    atomic {                                                                                       \
        assert(nr_full <= LIMIT);                                                                  \
        assert((fulls == NONE) == (nr_full == 0) && (empties == NONE) == (nr_empty == 0));            \
        locked = false                                                                             \
    }

/* code: src/sheaf/barn.c barn_push | sheaf->next = *list */
#define PUSH(list, count, s, where)                                                                \
    assert(owner[s] == me);                                                                        \
    owner[s] = where;                                                                              \
    next[s] = list;                                                                                \
    list = s;                                                                                      \
    count = count + 1
/* code: src/sheaf/barn.c barn_pop | *list = sheaf->next */
#define POP(list, count, s, where)                                                                 \
    s = list;                                                                                      \
    if                                                                                             \
    :: s != NONE ->                                                                                \
        n = next[s];                                                                               \
        list = n;                                                                                  \
        count = count - 1;                                                                         \
        assert(owner[s] == where);                                                                 \
        owner[s] = me                                                                              \
    :: s == NONE                                                                                   \
    fi
#define FREE(s) atomic { assert(owner[s] == me && size[s] == 0); owner[s] = FREED; s = NONE }

/* code: src/sheaf/barn.c barn_put_empty | if (barn_keeps(cache, empty) && barn_lock(cache, barn, node, nospin)) */
inline put_empty(s)
{
    if
    :: capacity[s] == cache_capacity ->
        LOCK();
        if
        /* code: src/sheaf/barn.c barn_put_empty | if (barn_keeps(cache, empty) && barn->nr_empty < barn->full_limit + BARN_EMPTY_MORE) */
#ifdef NO_RECHECK
        :: nr_empty < LIMIT + 2 -> PUSH(empties, nr_empty, s, EMPTY); s = NONE
#else
        :: capacity[s] == cache_capacity && nr_empty < LIMIT + 2 -> PUSH(empties, nr_empty, s, EMPTY); s = NONE
#endif
        :: else
        fi;
        DROP()
    :: else
    fi;
    if
    :: s != NONE -> FREE(s)
    :: else
    fi
}

/* Has a full sheaf: puts it, gets an empty one, fills it. */
proctype putter(byte me; byte mine)
{
    byte n, e, turn;
    bool room;

    do
    :: turn == TURNS || mine == NONE -> break
    :: turn < TURNS && mine != NONE ->
        turn++;
        assert(owner[mine] == me);
        size[mine] = 1;
        e = NONE;
#ifdef LIMIT_OUTSIDE
        room = nr_full < LIMIT;
        LOCK();
#else
        LOCK();
        /* code: src/sheaf/barn.c barn_put_full | room = barn->nr_full < barn->full_limit */
        room = nr_full < LIMIT;
#endif
        if
        :: room ->
            /* code: src/sheaf/barn.c barn_add | barn_push(at, &barn->nr_full, full) */
            PUSH(fulls, nr_full, mine, FULL);
            mine = NONE;
            /* code: src/sheaf/barn.c barn_put_full | *empty = barn_pop(&barn->empty, &barn->nr_empty) */
            POP(empties, nr_empty, e, EMPTY)
        :: !room
        fi;
        DROP();
        if
        :: mine != NONE -> /* refused: flushed.  code: src/sheaf/slot_free.c slot_send | sheaf_flush(cache, full, call->nospin) */
#ifdef REFUSED_LOST
            mine = NONE
#else
            size[mine] = 0;
            put_empty(mine)
#endif
        :: else
        fi;
        mine = e
    od;
    if
    :: mine != NONE -> size[mine] = 0; put_empty(mine)
    :: else
    fi;
    done++
}

/* Has an empty sheaf: takes a full one for it, uses it up. */
proctype getter(byte me; byte mine)
{
    byte n, f, turn;

    do
    :: turn == TURNS -> break
    :: turn < TURNS ->
        turn++;
        f = NONE;
        /* code: src/sheaf/barn.c barn_get | __atomic_load_n(&barn->nr_full, __ATOMIC_RELAXED) == 0 */
        if
        :: nr_full == 0 -> goto missed
        :: else
        fi;
#ifndef NO_LOCK
        LOCK();
#endif
        /* code: src/sheaf/barn.c barn_get | full = barn_pop_full(cache, barn) */
        POP(fulls, nr_full, f, FULL);
        if
        :: f != NONE && mine != NONE && capacity[mine] == cache_capacity ->
            /* code: src/sheaf/barn.c barn_get | barn_push(&barn->empty, &barn->nr_empty, *empty) */
            PUSH(empties, nr_empty, mine, EMPTY);
#ifndef KEPT_TWICE
            mine = NONE
#endif
        :: else
        fi;
#ifndef NO_LOCK
        DROP();
#endif
        if
        :: f != NONE ->
            assert(owner[f] == me && size[f] == 1);
            size[f] = 0;
            if
            :: mine != NONE -> put_empty(mine)
            :: else
            fi;
            mine = f
        :: else
        fi;
missed:
        skip
    od;
    if
    :: mine != NONE -> put_empty(mine)
    :: else
    fi;
    done++
}

/* code: src/sheaf/barn.c barn_fit | barn_cut(cache, barn, barn->full_limit, barn->full_limit + BARN_EMPTY_MORE) */
proctype changer(byte me)
{
    byte n, s, worn = NONE;

    cache_capacity = 2;
    LOCK();
    do
    :: empties == NONE -> break
    :: empties != NONE -> /* all are of the old one */
        POP(empties, nr_empty, s, EMPTY);
        next[s] = worn;
        worn = s
    od;
    DROP();
    do
    :: worn == NONE -> break
    :: worn != NONE -> s = worn; worn = next[s]; FREE(s)
    od;
    done++
}

init
{
    byte k, e;

    d_step {
        do
        :: k == SHEAVES -> break
        :: k < SHEAVES -> capacity[k] = 1; next[k] = NONE; owner[k] = k; k++
        od;
        owner[3] = EMPTY; /* one is there already */
        empties = 3;
        nr_empty = 1;
        k = 0
    };
    atomic { run putter(0, 0); run putter(1, 1); run getter(2, 2); run changer(3) };
    done == 4;
    d_step {
        e = empties;
        do
        :: e == NONE -> break
        :: e != NONE -> assert(capacity[e] == cache_capacity); e = next[e]
        od;
        do
        :: k == SHEAVES -> break
        :: k < SHEAVES -> assert(owner[k] >= FULL && (owner[k] == FULL) == (size[k] == 1)); k++
        od
    }
}
