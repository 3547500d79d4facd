/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * stook.h - workloads on one slab cache of a real kernel, and the record of their calls.
 *
 * One run at a time.  main.c makes the cache and speaks with /init over /proc/stook; worker.c has a
 * thread on each CPU and makes the calls; patterns.c decides who calls what (the scenarios of
 * `stook lab`); follow.c makes the calls of an order file instead.
 */
#ifndef STOOK_KERNEL_H
#define STOOK_KERNEL_H

#include <linux/atomic.h>
#include <linux/llist.h>
#include <linux/slab.h>
#include <linux/types.h>

/* The order file: tools/lab/order.h.  Little endian, as every machine that this runs on. */
struct stook_header {
    char magic[8];
    u32 version, cpus, object_size, objects;
    u64 records;
};

enum { STOOK_ALLOC, STOOK_FREE };
enum { STOOK_NORECLAIM = 1, STOOK_FAILED = 2 };

struct stook_record {
    u32 object;
    u16 cpu;
    u8 op, flags;
};

/*
 * The run.  `object` has the address of each object that is out, by its id, and NULL of the others:
 * only a call that has the object reads or writes its word.  `seq` orders the calls of all CPUs: a call
 * draws its number right before it enters the allocator.
 */
struct stook_run {
    struct kmem_cache *cache;
    char name[32];
    unsigned int object_size, pairs, depth, batch, kept, cross;
    u32 operations;
    struct stook_record *record;
    u64 room; /* records that fit */
    void **object;
    u32 objects; /* ids in use are below */
    atomic64_t seq, allocs, frees, failed, retried, broken;
    atomic_t begun; /* operations claimed; an operation is an object */
};
extern struct stook_run stook_run;

/* ---- worker.c: calls and threads ---- */

void *stook_alloc(u32 id, u8 flags);
void stook_free(u32 id);
/* The next ids that a pattern may allocate: their number, 0 when all are claimed; the first. */
unsigned int stook_claim(unsigned int n, u32 *first);

/*
 * An actor runs in steps on the CPU that it names; a step may name another one for the next step.
 * STOOK_IDLE: it waits until another actor calls stook_kick() of its CPU, or some jiffies.
 */
enum stook_step { STOOK_BUSY, STOOK_IDLE, STOOK_DONE };
struct stook_actor {
    struct llist_node inbox;
    struct stook_actor *next;
    unsigned int cpu;
    u64 random;
    enum stook_step (*step)(struct stook_actor *actor);
};

unsigned int stook_random(struct stook_actor *actor, unsigned int below);
void stook_kick(unsigned int cpu);
/* Runs until every actor is done. */
int stook_act(struct stook_actor **actors, unsigned int n);

/* ---- patterns.c ---- */

/* Runs a scenario of that name; -ENOENT if there is none. */
int stook_pattern(const char *name);

/* ---- follow.c ---- */

/* Makes these calls. */
int stook_follow(const struct stook_record *record, u64 records);

#endif
