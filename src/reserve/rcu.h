/* SPDX-License-Identifier: MIT */
/*
 * rcu.h - deferred frees: objects that readers may still read, and slabs of type-stable caches.
 *
 * The path of an object that stook_free_rcu() takes, each step visible to a thread that drains:
 *
 *   slot     this CPU's rcu sheaf of the cache (slot->rcu): by a section (percpu/sections.h), or under
 *            the closed slot, as where there are none, the first and the last of each sheaf
 *   (loose   a cell of a small table, if there is no slot or no sheaf)
 *   late     full sheaves, a lock-free stack; pushed while the slot is still closed
 *   hand     a thread has taken the stack and gives each sheaf to ops.call
 *   RCU      until the grace period is over
 *   back     the barn of the node it was filled on, or the slabs
 *
 * The RCU's memory for a sheaf lies in the sheaf, behind its objects (struct rcu_ride).  Readers may read the
 * objects, so the library does not write to them before they are back.
 *
 * ops.call is called outside the library (depth 0), without a lock, and never interrupts itself on one thread.
 * If a handler finds its thread handing sheaves over, it leaves its own on the stack, and the interrupted
 * thread checks the stack again.
 *
 * A drain (stook_rcu_barrier, stook_cache_destroy) empties slots and cells onto the stack.  It waits until the
 * threads that hold a hand are done (rcu_hand_wait), and then asks the RCU.  A thread that begins a hand
 * later takes no object that was deferred before.
 */
#ifndef STOOK_RESERVE_RCU_H
#define STOOK_RESERVE_RCU_H

#include "sheaf/sheaf.h"

#include <stook/rcu.h>
#include <stook/stook.h>

struct slab;

enum {
    RCU_SINGLES = 32, /* objects a sheaf of a cache that has no sheaves of its own */
    RCU_MIXED = 65,   /* objects of any cache in a sheaf of loose ones */
    RCU_CELLS = 512,
    RCU_SPARES = 8, /* sheaves of loose objects that are there without memory */
};

/* Behind the objects of a sheaf that waits: at object[capacity]. */
struct rcu_ride {
    struct stook_rcu_head head;
    uint32_t node;     /* it was filled on; RCU_RIDE_LOOSE: objects of any cache */
    uint32_t capacity; /* of the sheaf, to find its start */
};
enum { RCU_RIDE_WORDS = sizeof(struct rcu_ride) / sizeof(void *) };
#define RCU_RIDE_LOOSE (~0u)

/* As set by stook_rcu_set_ops(); valid once rcu_is_set(). */
extern struct stook_rcu_ops rcu_ops __attribute__((visibility("hidden")));
bool rcu_is_set(void);

/* Prepares an empty sheaf with room for `capacity` objects and the ride. */
void rcu_ride_init(struct sheaf *sheaf, uint32_t capacity, uint32_t node);

/* Puts a sheaf that is complete onto the stack; only moves pointers. */
void rcu_hand_push(struct sheaf *sheaf);
bool rcu_hand_any(void);
/* All of the stack, by a thread that has begun a hand. */
struct sheaf *rcu_hand_pop_all(void);
/* The stack to the RCU, which calls `done` for each.  Outside the library. */
void rcu_hand_over(void (*done)(struct stook_rcu_head *head));

/* A thread that takes deferred objects out of the places that a drain empties holds a hand meanwhile. */
unsigned rcu_hand_begin(void);
void rcu_hand_end(unsigned side);
/* Waits for all hands that were begun before, and for no others. */
void rcu_hand_wait(void);
/* In the forked child: other threads' hands do not exist here. */
void rcu_hand_child(void);

/*
 * After this no section on that CPU commits to a sheaf that was taken from there (rcu_fence.c).
 */
void rcu_fence(unsigned cpu);

/* Loose objects (rcu_loose.c).  False: the cells are full, and there is no sheaf. */
bool rcu_loose_put(void *object, unsigned node, bool nospin);
/* Cells onto the stack, all of them or, unless `all`, a sheaf's worth when there is one; false:
 * there is no sheaf. */
bool rcu_loose_collect(unsigned node, bool all, bool nospin);
/* A sheaf of loose objects has come back. */
void rcu_loose_done(struct sheaf *sheaf, bool nospin);

/* hooks_rcu.defer_slab (rcu_slabs.c), and how many slabs of a cache still wait. */
void rcu_slabs_defer(struct stook_cache *cache, struct slab *slab);
/* Those that wait begin to, if none does.  Outside the library. */
void rcu_slabs_begin(void);
unsigned rcu_slabs_waiting(const struct stook_cache *cache);

/* Runs `function` outside the library, where this thread is in it once; false where it is nested. */
bool rcu_outside(void (*function)(void));

/* Events, for tests and statistics: racy sums since the cache was made. */
struct rcu_events {
    uint64_t sheaves; /* handed to the RCU full */
    uint64_t pushed;  /* … in part, by a drain */
    uint64_t loose;   /* objects that went another way than by a sheaf of the cache */
    uint64_t barn;    /* sheaves that came back and went to a barn */
    uint64_t flushed; /* … to the slabs */
};
void rcu_events_of(const struct stook_cache *cache, struct rcu_events *events);

#endif
