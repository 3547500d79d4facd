/* SPDX-License-Identifier: MIT */
/*
 * lab.h - a run of `stook lab`: its options, its actors, the design under test, and what is counted.
 */
#ifndef STOOK_LAB_LAB_H
#define STOOK_LAB_LAB_H

#include "lab/scenario.h"

enum lab_pairing { LAB_ADJACENT, LAB_SAME, LAB_CROSS_NODE, LAB_ALL_TO_ONE };
extern const char *const lab_pairings[]; /* by enum lab_pairing; NULL behind the last */

struct lab_options {
    const struct lab_scenario *scenario;
    const struct lab_design *design;
    const char *topology; /* as it was given, or the name of the default */
    uint64_t operations, seed;
    unsigned queues; /* 0: the default */
    unsigned depth, batch;
    unsigned kept;     /* of ublk: objects that a completer does not give back */
    unsigned capacity; /* objects a sheaf; 0: the product's choice */
    unsigned size, align;
    int order; /* of slabs; -1: the product's choice */
    enum lab_pairing pairing;
    int completers; /* the node of all-to-one */
    bool threads, json;
    bool refill;                      /* of upstream-first: where blocking is not allowed, too */
    bool race;                        /* of upstream-first: the list corruption of 2026 */
    bool bare;                        /* of stook: no pool before the cache */
    bool classes;                     /* of stook: a cache as malloc's size classes are */
    const struct timing_costs *costs; /* NULL: no time is modelled */
    unsigned cores, slice; /* the CPUs share so many cores, for so many steps on average; 0: none */
    const char *order_out; /* a file for the order of calls; NULL: none */
};

/*
 * Events of one CPU that the lab itself counts, whatever the design.  "Outside": a call that touched a slab.
 * Locks are those that CPUs share, by the side that took them.
 */
enum lab_event {
    LAB_ALLOCS,
    LAB_FREES,
    LAB_ALLOC_OUTSIDE,
    LAB_FREE_OUTSIDE,
    LAB_ALLOC_BARN_LOCKS,
    LAB_FREE_BARN_LOCKS,
    LAB_ALLOC_LIST_LOCKS,
    LAB_FREE_LIST_LOCKS,
    LAB_EVENTS
};
extern const char *const lab_events[LAB_EVENTS];

enum { LAB_DESIGN_EVENTS = 64 };

struct lab_counts {
    uint64_t event[LAB_EVENTS];
    uint64_t design[LAB_DESIGN_EVENTS];
};

/* Everything counted up to a moment. */
struct lab_sums {
    uint64_t operations;
    struct lab_counts all;
    uint64_t slabs_made, slabs;
};

/* Takings of a lock by CPUs of its own node, of near and of far ones: numbers of a design's events. */
struct lab_lock {
    const char *name; /* NULL behind the last */
    unsigned own, near, far;
};

/*
 * A design: an allocator with per-CPU and per-node parts, played by the lab.  One cache, made for the
 * options.
 */
struct lab_design {
    const char *name;
    const char *const *events; /* of its own, by number; NULL behind the last */
    const struct lab_lock *locks;
    /* The cache and what else it needs; a status, 0 or after complain(). */
    int (*start)(struct lab *lab);
    /* On actor->cpu.  Count the events of enum lab_event but the first two. */
    void *(*alloc)(struct lab_actor *actor);
    void (*free)(struct lab_actor *actor, void *object);
    /* Its own events of one CPU so far, by their numbers; slabs made and there. */
    void (*read)(struct lab *lab, unsigned cpu, uint64_t *events);
    void (*slabs)(struct lab *lab, uint64_t *made, uint64_t *now);
    /* Bytes of its slabs now, where `slabs` counts others than its own, too.  May be NULL. */
    uint64_t (*bytes)(struct lab *lab);
    /* What one CPU holds in sheaves, or slabs; bytes of a node, in use or kept warm.  May be NULL. */
    void (*held)(struct lab *lab, unsigned cpu, uint64_t *sheaves, uint64_t *objects);
    /* The CPU went: it gives back what it held.  NULL: the library has seen to that. */
    void (*leave)(struct lab_actor *actor, unsigned cpu);
    uint64_t (*node_bytes)(struct lab *lab, unsigned node);
    /* All objects are free: gives everything back; a status after complain() if something is lost. */
    int (*stop)(struct lab *lab);
};
extern const struct lab_design lab_stook, lab_cpu_partial, lab_upstream_first, lab_upstream;
extern const struct lab_design *const lab_designs[]; /* NULL behind the last */

extern const struct lab_scenario lab_ublk, lab_local, lab_producer_consumer, lab_fork_exec,
    lab_random_walk, lab_hotplug;
extern const struct lab_scenario *const lab_scenarios[]; /* NULL behind the last */

/* CPUs and nodes' memory that went, and what they held that came back when they did. */
struct lab_gone {
    uint64_t cpus, memories, sheaves, objects, node_bytes;
    uint64_t left; /* sheaves that lay on a CPU still */
};

struct lab_actor {
    struct lab *lab;
    unsigned number, cpu;
    lab_step step;
    void *own;
    uint64_t random;
    int64_t out; /* objects allocated less freed by this actor */
    bool waits;  /* its allocations may wait at once; else a pool tries without first */
    struct lab_counts *count; /* of its CPU */
};

struct lab {
    const struct lab_options *options;
    struct lab_actor **actors;
    unsigned nr_actors;
    unsigned pairs;         /* queues that the scenario made */
    _Atomic uint64_t begun; /* operations claimed */
    uint64_t until;         /* the phase ends there */
    bool closing;
    bool closed;  /* what the design gives back at its end belongs to no call, and is not counted */
    void *memory; /* a list of what lab_memory() gave */
    void *design; /* the design's own */
    struct lab_counts *cpus; /* by CPU number */
    /* What the design says of itself, for the output. */
    unsigned stride, order, slab_objects, sheaf_capacity;
    struct lab_sums half, end;      /* at half of the operations, and at all */
    struct timing *timing;          /* NULL: no time is modelled */
    struct lab_gone gone;           /* one actor at a time changes the machine */
    struct order_writer *order_out; /* NULL: the order of calls is not written */
};

/* Counters of CPUs: several actors may be on one, each on its thread. */
static inline void lab_count(struct lab_actor *actor, enum lab_event event, uint64_t n)
{
    uint64_t *word = &actor->count->event[event];

    if (n == 0 || actor->lab->closed)
        return;
    if (actor->lab->options->threads)
        __atomic_fetch_add(word, n, __ATOMIC_RELAXED);
    else
        *word += n;
}

/* player.c: a status.  Made ready by lab_ready(), unmade by lab_over(). */
void lab_ready(struct lab *lab, const struct lab_options *options);
int lab_play(struct lab *lab);
void lab_over(struct lab *lab);
/* From a generator: 0 to n - 1.  The first state of one, for each number another. */
unsigned lab_below(uint64_t *state, unsigned n);
uint64_t lab_seed(uint64_t number);
/* A step of an actor, on its CPU; false: there was nothing to do. */
bool lab_step_actor(struct lab_actor *actor);

/* output.c: to standard output; a status. */
int lab_print(const struct lab *lab);
/* Parts of it: what objects and slabs are, and counters by CPU; as a listing, summed, one object a CPU. */
struct writer;
void lab_list_objects(const struct lab *lab, struct writer *w);
void lab_list_counters(const struct lab *lab, const struct lab_counts *cpus, struct writer *w);
void lab_json_sums(const struct lab *lab, const struct lab_counts *cpus, struct writer *w);
void lab_json_cpus(const struct lab *lab, const struct lab_counts *cpus, struct writer *w);

/* The library's slabs of another order than it chose: before the cache's first slab. */
struct stook_cache;
void lab_set_order(struct stook_cache *cache, unsigned order);

#endif
