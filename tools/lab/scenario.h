/* SPDX-License-Identifier: MIT */
/*
 * scenario.h - what a scenario of `stook lab` is, and what it may call: all there is to know to add
 * one (a file of a page, and a line in scenarios.c).
 *
 * A scenario makes actors.  An actor is a thread of the simulated program, and is on one simulated CPU at a
 * time.  The player runs it step by step.  All actors run on one thread, and the seed decides which is next; or
 * each has a thread of its own (--threads).  A step allocates and frees a few objects;
 * channels carry objects from one actor to another.  An operation is one object, allocated and freed.
 */
#ifndef STOOK_LAB_SCENARIO_H
#define STOOK_LAB_SCENARIO_H

#include "lab/channel.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct lab;
struct lab_actor;

struct lab_scenario {
    const char *name;
    const char *summary; /* one line for the help */
    /* Makes the actors; 0, or a status after complain(): the options do not suit the topology. */
    int (*prepare)(struct lab *lab);
};

/*
 * One step.  What it may still allocate it asks of lab_claim(), which is 0 once the run is closing:
 * steps then free what they hold.  False: there was nothing to do.
 */
typedef bool (*lab_step)(struct lab_actor *actor);

/* ---- while it prepares ---------------------------------------------------------------------- */

/* An actor on a CPU; `own` is the scenario's, from lab_memory(). */
struct lab_actor *lab_actor(struct lab *lab, unsigned cpu, lab_step step, void *own);
/* One on each CPU, whose `own` has so many bytes.  A status. */
int lab_actor_each(struct lab *lab, lab_step step, size_t bytes);
/* Zeroed memory that lives as long as the run. */
void *lab_memory(struct lab *lab, size_t bytes);
struct lab_channel *lab_channel(struct lab *lab, unsigned capacity);

/* The simulated machine's CPUs by position, in the order of their numbers. */
unsigned lab_cpus(void);
unsigned lab_cpu_at(unsigned position);
/* A number of queues, 0: the default, or fewer where the CPUs are fewer. */
unsigned lab_pairs(const struct lab *lab);

/* ---- within a step -------------------------------------------------------------------------- */

/* Up to n allocations: how many this actor now must make.  0: it shall only free. */
unsigned lab_claim(struct lab_actor *actor, unsigned n);
void *lab_alloc(struct lab_actor *actor);
void lab_free(struct lab_actor *actor, void *object);
/* The actor is on that CPU from here on. */
void lab_move(struct lab_actor *actor, unsigned cpu);
/* A CPU of the simulated machine, or a node's memory, goes or comes back; what it held is counted. */
void lab_set_cpu(struct lab_actor *actor, unsigned cpu, bool there);
void lab_set_memory(struct lab *lab, unsigned node, bool there);
/* From the actor's own generator: 0 to n - 1. */
unsigned lab_random(struct lab_actor *actor, unsigned n);
bool lab_closing(const struct lab_actor *actor);
/* Other CPUs act between two calls of this one: a step is one call, if the scenario can do that. */
bool lab_one_by_one(const struct lab_actor *actor);
/* Operations begun, of this many: what a scenario with phases goes by. */
uint64_t lab_begun(const struct lab_actor *actor, uint64_t *of);

static inline void lab_shuffle(struct lab_actor *actor, void **objects, unsigned n)
{
    for (unsigned i = n; i > 1; i--) {
        unsigned j = lab_random(actor, i);
        void *object = objects[i - 1];
        objects[i - 1] = objects[j];
        objects[j] = object;
    }
}

#endif
