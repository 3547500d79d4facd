/* SPDX-License-Identifier: MIT */
/*
 * player.c - runs the actors of a scenario: the first half of the operations, the second, and then
 * until every object is free again.
 *
 * On one thread the next actor is drawn from the seed, so that the same seed makes the same history.
 * With --cores only so many actors act at a time, each for a slice of steps, as on an emulated machine whose
 * CPUs share the host's cores.  An actor that waits uses its slice up.
 * With --threads each actor is a thread, and the machine decides the history.  The end is always played on one
 * thread.
 */
#include "lab/order.h"
#include "lab/timing.h"
#include "look/target.h"
#include "stook/command.h"

#include "os/topology.h"

#include <stook/stook.h>
#include <stook/topology.h>

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

enum { PLAYER_ACTORS_MAX = 4096, PLAYER_STILL = 1000 };

/* splitmix64 */
static uint64_t player_next(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;

    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

unsigned lab_below(uint64_t *state, unsigned n)
{
    return (unsigned)((player_next(state) >> 32) * n >> 32);
}

uint64_t lab_seed(uint64_t number)
{
    return player_next(&number);
}

/* ---- what scenarios call -------------------------------------------------------------------- */

unsigned lab_cpus(void)
{
    unsigned n = 0;

    for (unsigned cpu = 0; cpu < topology.cpus; cpu++)
        n += topology_has_cpu(&topology, cpu);
    return n;
}

unsigned lab_cpu_at(unsigned position)
{
    unsigned cpu = 0;

    for (;; cpu++)
        if (topology_has_cpu(&topology, cpu) && position-- == 0)
            return cpu;
}

unsigned lab_pairs(const struct lab *lab)
{
    unsigned most = lab_cpus() / 2, queues = lab->options->queues;

    if (most == 0)
        most = 1;
    return queues ? queues : most < 16 ? most : 16;
}

void *lab_memory(struct lab *lab, size_t bytes)
{
    void **memory = target_need(aligned_alloc(64, (bytes + 2 * 64 - 1) / 64 * 64));

    memset(memory, 0, bytes + 64);
    *memory = lab->memory;
    lab->memory = memory;
    return (char *)memory + 64;
}

struct lab_actor *lab_actor(struct lab *lab, unsigned cpu, lab_step step, void *own)
{
    struct lab_actor *actor = lab_memory(lab, sizeof(*actor));

    if (!lab->actors)
        lab->actors = lab_memory(lab, PLAYER_ACTORS_MAX * sizeof(lab->actors[0]));
    if (lab->nr_actors == PLAYER_ACTORS_MAX)
        die("more than %d actors", PLAYER_ACTORS_MAX);
    actor->lab = lab;
    actor->step = step;
    actor->own = own;
    actor->random = lab_seed(lab->options->seed + lab->nr_actors + 1);
    actor->number = lab->nr_actors;
    lab_move(actor, cpu);
    lab->actors[lab->nr_actors++] = actor;
    return actor;
}

int lab_actor_each(struct lab *lab, lab_step step, size_t bytes)
{
    for (unsigned i = 0; i < lab_cpus(); i++)
        lab_actor(lab, lab_cpu_at(i), step, lab_memory(lab, bytes));
    return 0;
}

struct lab_channel *lab_channel(struct lab *lab, unsigned capacity)
{
    struct lab_channel *channel =
        lab_memory(lab, sizeof(*channel) + capacity * sizeof(channel->object[0]));

    channel->capacity = capacity;
    return channel;
}

unsigned lab_claim(struct lab_actor *actor, unsigned n)
{
    struct lab *lab = actor->lab;
    uint64_t begun = atomic_load_explicit(&lab->begun, memory_order_relaxed);

    do {
        if (begun >= lab->until)
            return 0;
        if (n > lab->until - begun)
            n = (unsigned)(lab->until - begun);
    } while (!atomic_compare_exchange_weak_explicit(&lab->begun, &begun, begun + n,
                                                    memory_order_relaxed, memory_order_relaxed));
    return n;
}

/* While an object is allocated, its first word says so: it is not handed out or freed twice. */
static uint64_t player_stamp(const void *object)
{
    return (uint64_t)(uintptr_t)object * 0x9e3779b97f4a7c15u ^ 0x6c6162206f757421u;
}

void *lab_alloc(struct lab_actor *actor)
{
    uint64_t *object = actor->lab->options->design->alloc(actor);

    if (!object)
        die("an allocation failed on CPU %u", actor->cpu);
    if (__atomic_exchange_n(object, player_stamp(object), __ATOMIC_RELAXED) == player_stamp(object))
        die("CPU %u got an object that is allocated already", actor->cpu);
    actor->out++;
    timing_object_used(actor, object);
    lab_count(actor, LAB_ALLOCS, 1);
    if (actor->lab->order_out)
        order_note_alloc(actor, object);
    return object;
}

void lab_free(struct lab_actor *actor, void *object)
{
    if (__atomic_exchange_n((uint64_t *)object, 0, __ATOMIC_RELAXED) != player_stamp(object))
        die("CPU %u frees an object that is not allocated", actor->cpu);
    actor->out--;
    timing_object_freed(actor, object);
    lab_count(actor, LAB_FREES, 1);
    if (actor->lab->order_out)
        order_note_free(actor, object);
    actor->lab->options->design->free(actor, object);
}

void lab_move(struct lab_actor *actor, unsigned cpu)
{
    actor->cpu = cpu;
    actor->count = &actor->lab->cpus[cpu];
    stook_topology_cpu(
        (int)cpu); /* the library's CPU is the actor's for the rest of the step, too */
}

void lab_set_cpu(struct lab_actor *actor, unsigned cpu, bool there)
{
    struct lab *lab = actor->lab;
    const struct lab_design *design = lab->options->design;
    uint64_t sheaves = 0, objects = 0, left = 0, none = 0;

    if (topology_is_online(&topology, cpu) == there)
        return;
    if (!there && design->held)
        design->held(lab, cpu, &sheaves, &objects);
    if (stook_topology_cpu_online((int)cpu, there) != 0)
        die("CPU %u cannot go %s", cpu, there ? "online" : "offline");
    if (there)
        return;
    if (design->leave)
        design->leave(actor, cpu);
    if (design->held)
        design->held(lab, cpu, &left, &none);
    lab->gone.cpus++;
    lab->gone.sheaves += sheaves;
    lab->gone.objects += objects;
    lab->gone.left += left;
}

/* The last node with memory stays. */
void lab_set_memory(struct lab *lab, unsigned node, bool there)
{
    const struct lab_design *design = lab->options->design;
    uint64_t before, after;

    if (topology_has_memory(node) == there)
        return;
    before = design->node_bytes ? design->node_bytes(lab, node) : 0;
    if (stook_topology_memory_online((int)node, there) != 0 || there)
        return;
    after = design->node_bytes ? design->node_bytes(lab, node) : 0;
    lab->gone.memories++;
    lab->gone.node_bytes += before > after ? before - after : 0;
}

unsigned lab_random(struct lab_actor *actor, unsigned n)
{
    return lab_below(&actor->random, n);
}

bool lab_one_by_one(const struct lab_actor *actor)
{
    return actor->lab->timing || actor->lab->options->cores;
}

bool lab_closing(const struct lab_actor *actor)
{
    return actor->lab->closing;
}

uint64_t lab_begun(const struct lab_actor *actor, uint64_t *of)
{
    *of = actor->lab->options->operations;
    return atomic_load_explicit(&actor->lab->begun, memory_order_relaxed);
}

/* ---- phases --------------------------------------------------------------------------------- */

bool lab_step_actor(struct lab_actor *actor)
{
    /* Its CPU went: on the next one that is there, until the scenario moves it. */
    while (!topology_is_online(&topology, actor->cpu))
        lab_move(actor, (actor->cpu + 1) % topology.cpus);
    stook_topology_cpu((int)actor->cpu);
    return actor->step(actor);
}

static bool player_going(struct lab *lab)
{
    return atomic_load_explicit(&lab->begun, memory_order_relaxed) < lab->until;
}

static void *player_thread(void *arg)
{
    struct lab_actor *actor = arg;

    while (player_going(actor->lab))
        if (!lab_step_actor(actor))
            sched_yield();
    return NULL;
}

static int player_threads(struct lab *lab)
{
    pthread_t *thread = lab_memory(lab, lab->nr_actors * sizeof(*thread));
    unsigned n = 0;

    while (n < lab->nr_actors &&
           pthread_create(&thread[n], NULL, player_thread, lab->actors[n]) == 0)
        n++;
    if (n < lab->nr_actors)
        lab->until = 0; /* those that run end */
    for (unsigned i = 0; i < n; i++)
        pthread_join(thread[i], NULL);
    return n == lab->nr_actors ? 0 : complain(STATUS_FAILED, "only %u threads could be made", n);
}

/* A core: which actor is on it, and for how many steps still. */
struct player_core {
    unsigned actor, steps;
};

static struct lab_actor *player_draw(struct lab *lab, struct player_core *core, uint64_t *random)
{
    unsigned cores = lab->options->cores;

    if (cores == 0)
        return lab->actors[lab_below(random, lab->nr_actors)];
    core += lab_below(random, cores);
    if (core->steps == 0) {
        core->actor = lab_below(random, lab->nr_actors);
        core->steps = 1 + lab_below(random, 2 * lab->options->slice - 1);
    }
    core->steps--;
    return lab->actors[core->actor];
}

static int player_turns(struct lab *lab, struct player_core *core, uint64_t *random)
{
    const uint64_t slice = lab->options->cores ? lab->options->slice : 1;
    uint64_t still = 0;

    while (player_going(lab)) {
        if (lab_step_actor(player_draw(lab, core, random)))
            still = 0;
        else if (++still > PLAYER_STILL * lab->nr_actors * slice)
            return complain(STATUS_FAILED, "the actors wait for each other (deadlock)");
    }
    return 0;
}

static int player_close(struct lab *lab)
{
    int64_t out = 0;
    bool busy = true;

    lab->closing = true;
    while (busy) {
        busy = false;
        for (unsigned i = 0; i < lab->nr_actors; i++)
            busy |= lab_step_actor(lab->actors[i]);
    }
    for (unsigned i = 0; i < lab->nr_actors; i++)
        out += lab->actors[i]->out;
    return out == 0 ? 0
                    : complain(STATUS_FAILED, "%lld objects were lost on the way", (long long)out);
}

static void player_read(struct lab *lab, struct lab_sums *sums)
{
    const struct lab_design *design = lab->options->design;

    memset(sums, 0, sizeof(*sums));
    for (unsigned cpu = 0; cpu < topology.cpus; cpu++) {
        struct lab_counts *count = &lab->cpus[cpu];
        if (!topology_has_cpu(&topology, cpu))
            continue;
        design->read(lab, cpu, count->design);
        for (unsigned i = 0; i < LAB_EVENTS; i++)
            sums->all.event[i] += count->event[i];
        for (unsigned i = 0; i < LAB_DESIGN_EVENTS; i++)
            sums->all.design[i] += count->design[i];
    }
    sums->operations = atomic_load_explicit(&lab->begun, memory_order_relaxed);
    design->slabs(lab, &sums->slabs_made, &sums->slabs);
}

void lab_ready(struct lab *lab, const struct lab_options *options)
{
    memset(lab, 0, sizeof(*lab));
    lab->options = options;
    lab->cpus = lab_memory(lab, topology.cpus * sizeof(lab->cpus[0]));
}

void lab_over(struct lab *lab)
{
    timing_end(lab);
    while (lab->memory) {
        void *next = *(void **)lab->memory;
        free(lab->memory);
        lab->memory = next;
    }
}

int lab_play(struct lab *lab)
{
    const uint64_t until[] = {lab->options->operations / 2, lab->options->operations};
    struct lab_sums *const sums[] = {&lab->half, &lab->end};
    struct player_core *core = lab_memory(lab, (lab->options->cores + 1) * sizeof(*core));
    uint64_t random = lab->options->seed;
    int status;

    for (unsigned phase = 0; phase < 2; phase++) {
        lab->until = until[phase];
        status = lab->timing             ? timing_play(lab)
                 : lab->options->threads ? player_threads(lab)
                                         : player_turns(lab, core, &random);
        if (status != 0)
            return status;
        if (lab->timing)
            timing_mark(lab);
        player_read(lab, sums[phase]);
    }
    status = player_close(lab);
    /* What the end adds is in the CPUs' counters, and in no half. */
    for (unsigned cpu = 0; cpu < topology.cpus; cpu++)
        if (topology_has_cpu(&topology, cpu))
            lab->options->design->read(lab, cpu, lab->cpus[cpu].design);
    lab->closed = true;
    return status;
}
