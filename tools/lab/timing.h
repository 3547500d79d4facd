/* SPDX-License-Identifier: MIT */
/*
 * timing.h - a model of time for `stook lab --costs`: every shared line and every lock is a place with
 * a queue, and a call asks for places and work in its order.
 *
 * A call makes all its changes at its beginning.  Its costs are demands, which are met one after the
 * other while the other CPUs continue.  The earliest CPU is always next, so locks are granted in the order
 * of the requests.  All costs are in one table (struct timing_costs), which a
 * file can replace (docs/lab.md).
 *
 * Without a model all of this does nothing.
 */
#ifndef STOOK_LAB_TIMING_H
#define STOOK_LAB_TIMING_H

#include "lab/lab.h"

/*
 * The costs that a scenario may state besides those of places, in nanoseconds unless a line says otherwise.  With the costs that were calibrated on
 * three points of the report of 2026, and then frozen: topologies/ublk.costs.
 */
#define TIMING_COSTS(C)                                                                            \
    C(SUBMIT, "submit", 180, "beside the allocator, an object: the allocating side")               \
    C(COMPLETE, "complete", 260, "beside the allocator, an object: the freeing side")              \
    C(REAP, "reap", 80, "the part of submit that is done for a burst, before it")                  \
    C(FETCH, "fetch", 160, "the part of complete that is done for a batch, before it")             \
    C(LOCAL, "local", 5, "an allocation or a free without anything that is shared")                \
    C(LOCK, "lock", 8, "an atomic operation on a line that is here")                               \
    C(SECTION, "section", 10, "what is done under a lock: its least")                              \
    C(LINK, "link", 5, "a slab linked to a list or off it")                                        \
    C(PAGE, "page", 400, "a slab's pages from or to the page allocator")                           \
    C(CORE, "line.core", 10, "a line that the other thread of the core has written")               \
    C(NODE, "line.node", 20, "a line that another core of the node has written")                   \
    C(NEAR, "line.near", 110, "a line from another node, below distance 20")                       \
    C(FAR, "line.far", 200, "a line from farther")                                                 \
    C(HANDOVER, "handover", 2, "lines that a lock's way to its next holder takes (a number)")      \
    C(OBJECT, "object", 2.25, "lines of an object that its taker waits for (a number)")            \
    C(POLL, "poll", 200, "until a CPU that had nothing to do looks again")

enum timing_cost {
#define TIMING_COST(name, key, cost, what) TIMING_##name,
    TIMING_COSTS(TIMING_COST)
#undef TIMING_COST
        TIMING_COST_COUNT
};

struct timing_costs {
    double cost[TIMING_COST_COUNT];
};
extern const struct timing_costs timing_frozen;

/* Where a CPU's time went. */
enum timing_spent {
    TIMING_IN_WORK,
    TIMING_IN_CALLS,   /* local, sections, links, pages */
    TIMING_IN_LINES,   /* lines of slabs, of sheaves and of locks that were free */
    TIMING_IN_OBJECTS, /* lines of objects */
    TIMING_IN_BARNS,   /* waiting for barns' locks */
    TIMING_IN_LISTS,   /* waiting for nodes' list locks */
    TIMING_IDLE,       /* the other side of the queue had nothing */
    TIMING_SPENT
};
extern const char *const timing_spent_names[TIMING_SPENT];

/* A line or a lock. */
struct timing_place {
    const char *name; /* "barn" or "list_lock"; NULL: a line */
    int node;
    unsigned last; /* CPU + 1 that had it last */
    double until;  /* a line: it is on its way until then */
    bool held;
    struct lab_actor *first, *final; /* actors that wait */
    struct timing_place *next;       /* another lock, or another line that is free to use again */
    double waited, before; /* a lock: nanoseconds for it by all, and those of the first half */
};

struct timing_result {
    double seconds, operations; /* of the second half */
    double spent[TIMING_SPENT]; /* nanoseconds of all CPUs together in it */
};

struct timing;

/* A status.  Before the design starts; places are made then. */
int timing_start(struct lab *lab, const struct timing_costs *costs);
/* Costs of a file over the frozen ones; a status. */
int timing_read(const char *file, struct timing_costs *costs);
/* Plays the actors to the end of a phase in the order of their clocks; a status. */
int timing_play(struct lab *lab);
/* At half, and at the end. */
void timing_mark(struct lab *lab);
void timing_result(const struct lab *lab, struct timing_result *result);
/* The locks one after the other, and what was waited for each in the second half; NULL behind the last. */
const struct timing_place *timing_next_lock(const struct lab *lab, const struct timing_place *lock,
                                            double *waited);
void timing_end(struct lab *lab);

/* Calls in an order that is given, instead of timing_play(): of lab->actors. */
void timing_begin(struct lab *lab);
/* All go on until the actor's calls so far are over; when that is. */
double timing_catch_up(struct lab_actor *actor);
/* All go on until then, when the actor's next call begins: no earlier than any call before. */
void timing_call(struct lab_actor *actor, double when);
/* What the call asked for is met from then on. */
void timing_called(struct lab_actor *actor);

/* NULL without a model. */
struct timing_place *timing_place(struct lab *lab, const char *name, int node);
void timing_forget(struct lab *lab, struct timing_place *place);

/* ---- demands of the call under way ----------------------------------------------------------- */

void timing_add_work(struct lab_actor *actor, enum timing_cost cost);
void timing_add_line(struct lab_actor *actor, struct timing_place *line, bool lock, bool unlock);
enum timing_way { TIMING_LINK_HERE, TIMING_LINK_FETCHED, TIMING_USED, TIMING_FREED };
void timing_add_object(struct lab_actor *actor, const void *object, enum timing_way way);

static inline void timing_work(struct lab_actor *actor, enum timing_cost cost)
{
    if (actor->lab->timing)
        timing_add_work(actor, cost);
}

/* A change of the line. */
static inline void timing_line(struct lab_actor *actor, struct timing_place *line)
{
    if (actor->lab->timing)
        timing_add_line(actor, line, false, false);
}

static inline void timing_lock(struct lab_actor *actor, struct timing_place *lock)
{
    if (actor->lab->timing)
        timing_add_line(actor, lock, true, false);
}

static inline void timing_unlock(struct lab_actor *actor, struct timing_place *lock)
{
    if (actor->lab->timing)
        timing_add_line(actor, lock, false, true);
}

/* The line is new, and this CPU's. */
static inline void timing_own(struct lab_actor *actor, struct timing_place *line)
{
    if (actor->lab->timing)
        line->last = actor->cpu + 1;
}

/* A free object's link is read. */
static inline void timing_object(struct lab_actor *actor, const void *object)
{
    if (actor->lab->timing)
        timing_add_object(actor, object, TIMING_LINK_HERE);
}

/* The same, for an object that was fetched ahead: no CPU waits for it. */
static inline void timing_object_fetched(struct lab_actor *actor, const void *object)
{
    if (actor->lab->timing)
        timing_add_object(actor, object, TIMING_LINK_FETCHED);
}

/* The actor that allocated the object uses it. */
static inline void timing_object_used(struct lab_actor *actor, const void *object)
{
    if (actor->lab->timing)
        timing_add_object(actor, object, TIMING_USED);
}

/* The actor that frees the object has used it, so its lines are at this CPU. */
static inline void timing_object_freed(struct lab_actor *actor, const void *object)
{
    if (actor->lab->timing)
        timing_add_object(actor, object, TIMING_FREED);
}

/* Whether an actor holds the lock now, so that an attempt would fail. */
static inline bool timing_busy(const struct lab_actor *actor, const struct timing_place *lock)
{
    return actor->lab->timing && lock->held;
}

#endif
