/* SPDX-License-Identifier: MIT */
/*
 * rcu.h - deferred frees: objects that readers may still read, and slabs of type-stable caches.
 *
 * The path of an object of stook_free_rcu().  A thread that drains can find it at each station:
 *
 *   slot     this CPU's rcu sheaf of the cache (slot->rcu).  A section puts objects there (percpu/sections.h).  The
 *            first and the last object of a sheaf, and all without sections, are put under the closed slot
 *   stack    full sheaves, lock-free; a sheaf is pushed while its slot is still closed.  An object without a sheaf of
 *            its cache goes there at once, in a sheaf of its own (rcu_single.c)
 *   mover    a thread that has taken the stack and passes each sheaf to ops.call (rcu_submit())
 *   RCU      until the grace period is over
 *   back     the barn of the node that the sheaf was filled on, or the slabs
 *
 * The RCU's memory for a sheaf lies in the sheaf, behind its objects (struct rcu_batch).  Readers may read the
 * objects, so the library does not write to them before the grace period is over.
 *
 * The library calls ops.call outside of itself (depth 0), without a lock, and never twice at a time on one thread.  A
 * signal handler that interrupted its thread in ops.call leaves its sheaves on the stack, and the interrupted thread
 * checks the stack again.
 *
 * Objects that a mover has taken are at no other station.  Movers are therefore counted, from before they take objects
 * until the objects are at the next station.  There are two counts, as for the readers of SRCU.
 *
 * A drain (stook_rcu_barrier, stook_cache_destroy) empties slots onto the stack.  It waits for the movers that
 * were counted before (rcu_pass_wait()), and then for the RCU.  A mover that begins later takes no object that was
 * deferred before the drain.
 */
#ifndef STOOK_RESERVE_RCU_H
#define STOOK_RESERVE_RCU_H

#include "sheaf/sheaf.h"

#include <stook/rcu.h>
#include <stook/stook.h>

struct slab;

enum {
    RCU_NOSHEAF = 32,  /* objects of an rcu sheaf if the cache has no sheaves */
    RCU_SPARES = 1024, /* static sheaves for single objects, if there is no memory for one */
};

/* The RCU's memory in a sheaf that waits, behind its objects: at object[capacity]. */
struct rcu_batch {
    struct stook_rcu_head head; /* first */
    uint32_t
        node; /* that the sheaf was filled on; RCU_BATCH_SINGLE: one object, of any cache or of whole pages */
    uint32_t capacity; /* of the sheaf, to find its start */
};
enum { RCU_BATCH_WORDS = sizeof(struct rcu_batch) / sizeof(void *) };
#define RCU_BATCH_SINGLE (~0u)

static inline struct sheaf *rcu_batch_sheaf(struct stook_rcu_head *head)
{
    struct rcu_batch *batch = (struct rcu_batch *)(void *)head;

    return (struct sheaf *)(void *)((char *)batch - offsetof(struct sheaf, object) -
                                    batch->capacity * sizeof(void *));
}

/* As set by stook_rcu_set_ops(); valid once hooks_set.rcu is set. */
extern struct stook_rcu_ops rcu_ops __attribute__((visibility("hidden")));

/* Prepares an empty sheaf with room for `capacity` objects and the batch. */
void rcu_batch_init(struct sheaf *sheaf, uint32_t capacity, uint32_t node);

/* Pushes a full sheaf onto the stack; only moves pointers. */
void rcu_full_push(struct sheaf *sheaf);
/* Takes the whole stack.  Between rcu_pass_begin() and rcu_pass_end(). */
struct sheaf *rcu_full_pop_all(void);

/* Counts this thread as a mover, from before it takes deferred objects until they are at the next station.
 * rcu_pass_begin() returns the side that it was counted on. */
unsigned rcu_pass_begin(void);
void rcu_pass_end(unsigned side);
/* Waits for the movers that began before this call, and for no others. */
void rcu_pass_wait(void);
/* In the forked child: forgets the movers that were other threads. */
void rcu_pass_child(void);

/*
 * After this call no section on that CPU commits to a sheaf that was taken from there (rcu_fence.c).
 */
void rcu_fence(unsigned cpu);

/* A sheaf with this object alone, whose batch is RCU_BATCH_SINGLE; NULL: there is none (rcu_single.c). */
struct sheaf *rcu_single_make(void *object, unsigned node, bool nospin);
/* Its grace period is over and its object is freed. */
void rcu_single_free(struct sheaf *sheaf, bool nospin);

/* HOOKS_RCU_SLAB: a slab waits for a grace period (rcu_slabs.c). */
void rcu_slabs_defer(struct stook_cache *cache, struct slab *slab);
/* Starts the grace period of the slabs that wait, unless one is running.  Outside the library. */
void rcu_slabs_begin(void);
/* How many slabs of a cache still wait. */
unsigned rcu_slabs_waiting(const struct stook_cache *cache);

/* Leaves the library, runs `function` and enters again.  False: this call is nested, and did nothing. */
bool rcu_outside(void (*function)(void));

#endif
