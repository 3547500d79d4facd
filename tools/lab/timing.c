/* SPDX-License-Identifier: MIT */
/*
 * timing.c - the discrete-event simulation behind timing.h.
 */
#include "lab/timing.h"

#include "lab/queue.h"
#include "look/target.h"
#include "stook/command.h"

#include "os/topology.h"
#include "page/pagemap.h"

#include <stdlib.h>
#include <string.h>

enum { TIMING_OBJECTS = 1 << 21 };

enum timing_kind {
    TIMING_DO,
    TIMING_TOUCH,
    TIMING_TAKE,
    TIMING_DROP,
    TIMING_BRING,
    TIMING_FETCHED,
    TIMING_USE,
    TIMING_HAVE
};

struct timing_demand {
    uint8_t kind;
    uint8_t cost;
    uint64_t object; /* hash of its place in the arena */
    struct timing_place *place;
};

struct timing_actor {
    double now, asked; /* its clock; when it began to wait for a lock */
    struct timing_demand *demand;
    unsigned at, n, room;
    struct lab_actor *next; /* in a lock's queue */
    double spent[TIMING_SPENT];
};

/* Of the object of this key: the CPU + 1 that had its link, and itself, last; 0: none. */
struct timing_where {
    uint32_t key;
    uint16_t link, object;
};

struct timing {
    struct timing_costs costs;
    struct timing_actor *actor; /* by number */
    struct queue queue;         /* numbers of those that do not wait, the earliest first */
    struct timing_place *forgotten, *locks, **last_lock;
    struct timing_where *object; /* by hash */
    double now, begun[3];
    uint64_t operations[3];
    double spent[3][TIMING_SPENT];
    unsigned marks;
};

const char *const timing_spent_names[TIMING_SPENT] = {
    "beside the allocator",
    "calls and sections",
    "lines of slabs and locks",
    "lines of objects",
    "waiting for barns",
    "waiting for list locks",
    "idle",
};

static struct timing_actor *timing_of(const struct lab_actor *actor)
{
    return &actor->lab->timing->actor[actor->number];
}

/* ---- demands -------------------------------------------------------------------------------- */

static struct timing_demand *timing_demand(struct lab_actor *actor)
{
    struct timing_actor *t = timing_of(actor);

    if (t->n == t->room) {
        t->room = t->room ? 2 * t->room : 64;
        t->demand = target_need(realloc(t->demand, t->room * sizeof(t->demand[0])));
    }
    return memset(&t->demand[t->n++], 0, sizeof(t->demand[0]));
}

void timing_add_work(struct lab_actor *actor, enum timing_cost cost)
{
    struct timing_demand *demand = timing_demand(actor);

    demand->kind = TIMING_DO;
    demand->cost = (uint8_t)cost;
}

void timing_add_line(struct lab_actor *actor, struct timing_place *line, bool lock, bool unlock)
{
    struct timing_demand *demand = timing_demand(actor);

    demand->kind = lock ? TIMING_TAKE : unlock ? TIMING_DROP : TIMING_TOUCH;
    demand->place = line;
}

void timing_add_object(struct lab_actor *actor, const void *object, enum timing_way way)
{
    struct timing_demand *demand = timing_demand(actor);
    uint64_t at = ((uintptr_t)object - pagemap.base) / 8;

    demand->kind = way == TIMING_LINK_HERE      ? TIMING_BRING
                   : way == TIMING_LINK_FETCHED ? TIMING_FETCHED
                   : way == TIMING_USED         ? TIMING_USE
                                                : TIMING_HAVE;
    demand->object = at * 0x9e3779b97f4a7c15u;
}

struct timing_place *timing_place(struct lab *lab, const char *name, int node)
{
    struct timing_place *place;

    if (!lab->timing)
        return NULL;
    if ((place = lab->timing->forgotten))
        lab->timing->forgotten = place->next;
    else
        place = lab_memory(lab, sizeof(*place));
    memset(place, 0, sizeof(*place));
    place->name = name;
    place->node = node;
    if (name) {
        *lab->timing->last_lock = place;
        lab->timing->last_lock = &place->next;
    }
    return place;
}

void timing_forget(struct lab *lab, struct timing_place *place)
{
    if (!lab->timing)
        return;
    place->next = lab->timing->forgotten;
    lab->timing->forgotten = place;
}

/* ---- what they take ------------------------------------------------------------------------- */

/* The other thread of a core is half of the node's CPUs away, as Linux numbers them. */
static bool timing_same_core(unsigned a, unsigned b)
{
    unsigned half = topology.cpus / 2;

    return a % half == b % half;
}

static double timing_transfer(const struct timing *timing, unsigned from, unsigned to)
{
    unsigned a, b;

    if (from == to)
        return 0;
    a = topology_node(from);
    b = topology_node(to);
    if (a == b)
        return timing->costs
            .cost[topology.cpus > 1 && timing_same_core(from, to) ? TIMING_CORE : TIMING_NODE];
    return timing->costs.cost[topology_distance(a, b) < 20 ? TIMING_NEAR : TIMING_FAR];
}

static void timing_spend(struct timing_actor *t, enum timing_spent what, double time)
{
    t->now += time;
    t->spent[what] += time;
}

/* A line moves, after those that asked for it before. */
static void timing_move(const struct timing *timing, struct lab_actor *actor,
                        struct timing_place *line)
{
    struct timing_actor *t = timing_of(actor);
    double wait = line->until > t->now ? line->until - t->now : 0;
    double way = line->last ? timing_transfer(timing, line->last - 1, actor->cpu) : 0;

    timing_spend(t, TIMING_IN_LINES, wait + way + timing->costs.cost[TIMING_LOCK]);
    line->until = t->now;
    line->last = actor->cpu + 1;
}

/* Two objects of one place in the table forget each other. */
static struct timing_where *timing_where(struct timing *timing, uint64_t hash)
{
    struct timing_where *where = &timing->object[hash >> 32 & (TIMING_OBJECTS - 1)];

    if (where->key != (uint32_t)(hash >> 24))
        *where = (struct timing_where){.key = (uint32_t)(hash >> 24)};
    return where;
}

/* Lines of an object come: its link's, which a freelist is followed by, or those that its user waits for. */
static void timing_bring(struct lab_actor *actor, uint16_t *last, double lines)
{
    const struct timing *timing = actor->lab->timing;

    if (*last)
        timing_spend(timing_of(actor), TIMING_IN_OBJECTS,
                     lines * timing_transfer(timing, *last - 1, actor->cpu));
    *last = (uint16_t)(actor->cpu + 1);
}

/* An object has no more lines than its size. */
static double timing_lines(const struct lab *lab)
{
    double cost = lab->timing->costs.cost[TIMING_OBJECT], lines = (lab->options->size + 63) / 64;

    return cost < lines ? cost : lines;
}

/* ---- the order of clocks -------------------------------------------------------------------- */

static bool timing_before(const void *arg, unsigned a, unsigned b)
{
    const struct timing *timing = arg;
    double x = timing->actor[a].now, y = timing->actor[b].now;

    return x < y || (x == y && a < b);
}

static void timing_queue(struct lab *lab)
{
    struct timing *timing = lab->timing;

    timing->actor = lab_memory(lab, lab->nr_actors * sizeof(timing->actor[0]));
    timing->queue =
        (struct queue){lab_memory(lab, lab->nr_actors * sizeof(timing->queue.number[0])), 0,
                       timing_before, timing};
}

/* The lock is another's: false, the actor waits. */
static bool timing_take(const struct timing *timing, struct lab_actor *actor,
                        struct timing_place *lock)
{
    struct timing_actor *t = timing_of(actor);

    if (!lock->held) {
        lock->held = true;
        timing_move(timing, actor, lock);
        return true;
    }
    t->asked = t->now;
    t->next = NULL;
    if (lock->first)
        timing_of(lock->final)->next = actor;
    else
        lock->first = actor;
    lock->final = actor;
    return false;
}

/* The first actor that waits gets the lock when the lock's lines have arrived. */
static void timing_drop(struct timing *timing, struct lab_actor *actor, struct timing_place *lock)
{
    struct lab_actor *next = lock->first;
    struct timing_actor *t;

    lock->until = timing_of(actor)->now;
    lock->held = next != NULL;
    if (!next)
        return;
    t = timing_of(next);
    lock->first = t->next;
    lock->last = next->cpu + 1;
    t->now = timing_of(actor)->now + timing->costs.cost[TIMING_LOCK] +
             timing->costs.cost[TIMING_HANDOVER] * timing_transfer(timing, actor->cpu, next->cpu);
    t->spent[*lock->name == 'b' ? TIMING_IN_BARNS : TIMING_IN_LISTS] += t->now - t->asked;
    lock->waited += t->now - t->asked;
    queue_push(&timing->queue, next->number);
}

/* One demand; false: the actor waits. */
static bool timing_meet(struct timing *timing, struct lab_actor *actor,
                        const struct timing_demand *demand)
{
    struct timing_actor *t = timing_of(actor);
    struct timing_where *where;

    switch ((enum timing_kind)demand->kind) {
    case TIMING_DO:
        if (demand->cost <= TIMING_FETCH) /* never the same twice: half of it to one and a half */
            timing_spend(t, TIMING_IN_WORK,
                         timing->costs.cost[demand->cost] * (512 + lab_random(actor, 1025)) / 1024);
        else
            timing_spend(t, TIMING_IN_CALLS, timing->costs.cost[demand->cost]);
        return true;
    case TIMING_TOUCH:
        timing_move(timing, actor, demand->place);
        return true;
    case TIMING_TAKE:
        return timing_take(timing, actor, demand->place);
    case TIMING_DROP:
        timing_drop(timing, actor, demand->place);
        return true;
    case TIMING_BRING:
        timing_bring(actor, &timing_where(timing, demand->object)->link, 1);
        return true;
    case TIMING_FETCHED:
        timing_where(timing, demand->object)->link = (uint16_t)(actor->cpu + 1);
        return true;
    case TIMING_USE:
        timing_bring(actor, &timing_where(timing, demand->object)->object,
                     timing_lines(actor->lab));
        return true;
    case TIMING_HAVE:
        where = timing_where(timing, demand->object);
        where->link = where->object = (uint16_t)(actor->cpu + 1);
        return true;
    }
    return true;
}

/* ---- play ----------------------------------------------------------------------------------- */

int timing_start(struct lab *lab, const struct timing_costs *costs)
{
    struct timing *timing = lab_memory(lab, sizeof(*timing));

    timing->costs = *costs;
    timing->last_lock = &timing->locks;
    timing->object = lab_memory(lab, TIMING_OBJECTS * sizeof(timing->object[0]));
    lab->timing = timing;
    return 0;
}

int timing_play(struct lab *lab)
{
    struct timing *timing = lab->timing;
    unsigned still = 0;

    if (!timing->actor) {
        timing_queue(lab);
        for (unsigned i = 0; i < lab->nr_actors; i++) {
            timing->actor[i].now = i; /* not all at once */
            queue_push(&timing->queue, i);
        }
    }
    while (atomic_load(&lab->begun) < lab->until) {
        unsigned number = queue_pop(&timing->queue);
        struct lab_actor *actor = lab->actors[number];
        struct timing_actor *t = &timing->actor[number];
        bool runs = true;

        timing->now = t->now;
        if (t->at < t->n) {
            struct timing_demand demand = t->demand[t->at++];
            runs = timing_meet(timing, actor, &demand);
            still = 0;
        } else {
            t->at = t->n = 0;
            if (lab_step_actor(actor))
                still = 0;
            else if (timing_spend(t, TIMING_IDLE, timing->costs.cost[TIMING_POLL]),
                     ++still > 100000 * lab->nr_actors)
                return complain(STATUS_FAILED, "the actors wait for each other (deadlock)");
        }
        if (runs)
            queue_push(&timing->queue, number);
    }
    return 0;
}

void timing_mark(struct lab *lab)
{
    struct timing *timing = lab->timing;
    unsigned mark = timing->marks++;

    timing->begun[mark] = timing->now;
    timing->operations[mark] = atomic_load(&lab->begun);
    for (unsigned i = 0; i < lab->nr_actors; i++)
        for (unsigned s = 0; s < TIMING_SPENT; s++)
            timing->spent[mark][s] += timing->actor[i].spent[s];
    for (struct timing_place *lock = timing->locks; lock && mark == 0; lock = lock->next)
        lock->before = lock->waited;
}

const struct timing_place *timing_next_lock(const struct lab *lab, const struct timing_place *lock,
                                            double *waited)
{
    lock = lock ? lock->next : lab->timing->locks;
    *waited = lock ? lock->waited - lock->before : 0;
    return lock;
}

void timing_result(const struct lab *lab, struct timing_result *result)
{
    const struct timing *timing = lab->timing;

    result->seconds = (timing->begun[1] - timing->begun[0]) / 1e9;
    result->operations = (double)(timing->operations[1] - timing->operations[0]);
    for (unsigned s = 0; s < TIMING_SPENT; s++)
        result->spent[s] = timing->spent[1][s] - timing->spent[0][s];
}

void timing_end(struct lab *lab)
{
    if (!lab->timing || !lab->timing->actor)
        return;
    for (unsigned i = 0; i < lab->nr_actors; i++)
        free(lab->timing->actor[i].demand);
}

/* ---- calls in a given order ------------------------------------------------------------------ */

void timing_begin(struct lab *lab)
{
    timing_queue(lab);
    timing_mark(lab);
}

/* One demand of the earliest of those that have any and do not wait. */
static void timing_one(struct lab *lab)
{
    struct timing *timing = lab->timing;
    unsigned number = queue_pop(&timing->queue);
    struct timing_actor *t = &timing->actor[number];
    struct timing_demand demand = t->demand[t->at++];

    timing->now = t->now;
    if (timing_meet(timing, lab->actors[number], &demand) && t->at < t->n)
        queue_push(&timing->queue, number);
}

double timing_catch_up(struct lab_actor *actor)
{
    struct timing_actor *t = timing_of(actor);

    while (t->at < t->n)
        timing_one(actor->lab);
    return t->now;
}

void timing_call(struct lab_actor *actor, double when)
{
    struct timing *timing = actor->lab->timing;
    struct timing_actor *t = timing_of(actor);

    while (timing->queue.n > 0 && timing->actor[timing->queue.number[0]].now <= when)
        timing_one(actor->lab);
    t->now = when;
    t->at = t->n = 0;
}

void timing_called(struct lab_actor *actor)
{
    struct timing_actor *t = timing_of(actor);

    if (t->at < t->n)
        queue_push(&actor->lab->timing->queue, actor->number);
}
