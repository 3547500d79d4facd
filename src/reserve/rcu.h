/* SPDX-License-Identifier: MIT */
/*
 * rcu.h - deferred frees: objects that readers may still read, and slabs of type-stable caches.
 *
 * The path of an object of stook_free_rcu().  A thread that drains can find it at each station:
 *
 *   slot     this CPU's rcu sheaf of the cache (slot->rcu).  A section puts objects there (percpu/sections.h).  The
 *            first and the last object of a sheaf, and all without sections, are put under the closed slot
 *   cell     a cell of a small table, if there is no slot or no sheaf (rcu_loose.c)
 *   stack    full sheaves, lock-free; a sheaf is pushed while its slot is still closed
 *   mover    a thread that has taken the stack and passes each sheaf to ops.call (rcu_hand_over())
 *   RCU      until the grace period is over
 *   back     the barn of the node that the sheaf was filled on, or the slabs
 *
 * The RCU's memory for a sheaf lies in the sheaf, behind its objects (struct rcu_ride).  Readers may read the
 * objects, so the library does not write to them before the grace period is over.
 *
 * The library calls ops.call outside of itself (depth 0), without a lock, and never twice at a time on one thread.  A
 * signal handler that interrupted its thread in ops.call leaves its sheaves on the stack, and the interrupted thread
 * checks the stack again.
 *
 * Objects that a mover has taken are at no other station.  Movers are therefore counted, from before they take objects
 * until the objects are at the next station.  There are two counts, as for the readers of SRCU.
 *
 * A drain (stook_rcu_barrier, stook_cache_destroy) empties slots and cells onto the stack.  It waits for the movers that
 * were counted before (rcu_hand_wait()), and then for the RCU.  A mover that begins later takes no object that was
 * deferred before the drain.
 */
#ifndef STOOK_RESERVE_RCU_H
#define STOOK_RESERVE_RCU_H

#include "sheaf/sheaf.h"

#include <stook/rcu.h>
#include <stook/stook.h>

struct slab;

enum {
    RCU_SINGLES = 32, /* objects of an rcu sheaf if the cache has no sheaves */
    RCU_MIXED = 65,   /* objects of a sheaf that takes the cells' objects, which are of any cache */
    RCU_CELLS = 512,
    RCU_SPARES = 8, /* static sheaves for the cells' objects, if there is no memory for one */
};

/* The RCU's memory in a sheaf that waits, behind its objects: at object[capacity]. */
struct rcu_ride {
    struct stook_rcu_head head;
    uint32_t node; /* that the sheaf was filled on; RCU_RIDE_LOOSE: the objects came from cells */
    uint32_t capacity; /* of the sheaf, to find its start */
};
enum { RCU_RIDE_WORDS = sizeof(struct rcu_ride) / sizeof(void *) };
#define RCU_RIDE_LOOSE (~0u)

/* As set by stook_rcu_set_ops(); valid once rcu_is_set(). */
extern struct stook_rcu_ops rcu_ops __attribute__((visibility("hidden")));
bool rcu_is_set(void);

/* Prepares an empty sheaf with room for `capacity` objects and the ride. */
void rcu_ride_init(struct sheaf *sheaf, uint32_t capacity, uint32_t node);

/* Pushes a full sheaf onto the stack; only moves pointers. */
void rcu_hand_push(struct sheaf *sheaf);
/* Whether the stack has a sheaf. */
bool rcu_hand_any(void);
/* Takes the whole stack.  Between rcu_hand_begin() and rcu_hand_end(). */
struct sheaf *rcu_hand_pop_all(void);
/* Passes the stack's sheaves to ops.call, which calls `done` for each after a grace period.  Outside the library. */
void rcu_hand_over(void (*done)(struct stook_rcu_head *head));

/* Counts this thread as a mover, from before it takes deferred objects until they are at the next station.
 * rcu_hand_begin() returns the side that it was counted on. */
unsigned rcu_hand_begin(void);
void rcu_hand_end(unsigned side);
/* Waits for the movers that began before this call, and for no others. */
void rcu_hand_wait(void);
/* In the forked child: forgets the movers that were other threads. */
void rcu_hand_child(void);

/*
 * After this call no section on that CPU commits to a sheaf that was taken from there (rcu_fence.c).
 */
void rcu_fence(unsigned cpu);

/* Puts an object into a cell (rcu_loose.c).  False: the cells are full, and there is no sheaf for their objects. */
bool rcu_loose_put(void *object, unsigned node, bool nospin);
/* Moves the cells' objects into sheaves and these onto the stack: all of them, or without `all` only if they fill a
 * sheaf.  False: there is no sheaf. */
bool rcu_loose_collect(unsigned node, bool all, bool nospin);
/* The grace period of a sheaf of the cells' objects is over: frees them to their caches. */
void rcu_loose_done(struct sheaf *sheaf, bool nospin);

/* HOOKS_RCU_SLAB: a slab waits for a grace period (rcu_slabs.c). */
void rcu_slabs_defer(struct stook_cache *cache, struct slab *slab);
/* Starts the grace period of the slabs that wait, unless one is running.  Outside the library. */
void rcu_slabs_begin(void);
/* How many slabs of a cache still wait. */
unsigned rcu_slabs_waiting(const struct stook_cache *cache);

/* Leaves the library, runs `function` and enters again.  False: this call is nested, and did nothing. */
bool rcu_outside(void (*function)(void));

/* Events, for tests and statistics: racy sums since the cache was made. */
struct rcu_events {
    uint64_t sheaves; /* passed to the RCU full */
    uint64_t pushed;  /* … partly filled, by a drain */
    uint64_t loose;   /* objects that found no sheaf of the cache */
    uint64_t barn;    /* sheaves that went to a barn after their grace period */
    uint64_t flushed; /* … to the slabs */
};
void rcu_events_of(const struct stook_cache *cache, struct rcu_events *events);

#endif
