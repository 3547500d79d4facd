/* SPDX-License-Identifier: MIT */
/*
 * trace_play.c - one replay.  Events are played in the order of the trace.  A lab has one cache, so there
 * is a lab for each cache of the trace; an actor is in the lab whose cache it calls.
 *
 * With the model of time, the time from one call to the next, of any thread, is the recorded one (or
 * options->gap).  If the thread's last call is not over by then, the call and all that follow are delayed.  So
 * two calls overlap only if they overlapped in the recording.
 */
#include "lab/trace_play.h"
#include "lab/trace_live.h"
#include "stook/command.h"

#include "os/topology.h"
#include "page/pagemap.h"

#include <stook/stook.h>
#include <stook/topology.h>

#include <stdlib.h>
#include <string.h>

enum {
    PLAY_SHEAF_HEAD = 16,
    PLAY_KERNEL_SHEAF_HEAD = 32
}; /* bytes of a sheaf beside its objects */

struct play_thread {
    unsigned first, last; /* recorded CPUs */
    bool begun;
};

struct play {
    struct trace *trace;
    const struct trace_options *options;
    const struct sweep_series *series;
    struct lab base; /* has the actors and the model of time, and no cache */
    struct lab *lab; /* by class */
    struct lab_options base_options, *lab_options;
    struct play_thread *thread;
    struct trace_live live;
    unsigned stated;       /* CPU that was stated to the library */
    unsigned cpus, *cpu;   /* by position */
    unsigned nodes, *node; /* with CPUs: where their CPUs begin in node_cpu; one more */
    unsigned *node_cpu;    /* CPUs by node */
    unsigned sheaf_alloc, sheaf_free, alloc_slab; /* numbers of the design's events */
    uint64_t time; /* of the last event that was replayed, as recorded */
    double called; /* when it began */
    uint64_t held; /* bytes of slabs, of all classes */
    __uint128_t sum_held, sum_live;
    struct trace_result *result;
    struct trace_class_result *class;
};

/* ---- where threads run ---------------------------------------------------------------------- */

static void play_machine(struct play *p)
{
    unsigned n = 0;

    p->cpus = lab_cpus();
    p->cpu = lab_memory(&p->base, p->cpus * sizeof(p->cpu[0]));
    p->node_cpu = lab_memory(&p->base, p->cpus * sizeof(p->node_cpu[0]));
    p->node = lab_memory(&p->base, (TOPOLOGY_NODES_MAX + 1) * sizeof(p->node[0]));
    for (unsigned i = 0; i < p->cpus; i++)
        p->cpu[i] = lab_cpu_at(i);
    for (unsigned node = 0; node < TOPOLOGY_NODES_MAX; node++) {
        unsigned before = n;
        for (unsigned i = 0; i < p->cpus; i++)
            if (topology_node(p->cpu[i]) == node)
                p->node_cpu[n++] = p->cpu[i];
        if (n > before)
            p->node[++p->nodes] = n;
    }
}

/*
 * By thread: the k-th thread has the k-th node, and there the next CPU, round and round; on another
 * recorded CPU than its first it is as many CPUs of its node further.
 */
static unsigned play_cpu(const struct play *p, const struct trace_event *event)
{
    const struct play_thread *t = &p->thread[event->thread];
    unsigned node = event->thread % p->nodes, first = p->node[node], n = p->node[node + 1] - first;

    if (p->options->map == TRACE_BY_CPU)
        return p->cpu[event->cpu % p->cpus];
    return p
        ->node_cpu[first + (event->thread / p->nodes % n + n + event->cpu % n - t->first % n) % n];
}

/* ---- the caches ----------------------------------------------------------------------------- */

static unsigned play_event_number(const struct lab_design *design, const char *name)
{
    unsigned i = 0;

    while (design->events[i] && strcmp(design->events[i], name) != 0)
        i++;
    return i; /* behind the last, which stays 0, if it counts no such thing */
}

static uint64_t play_bytes(struct lab *lab)
{
    const struct lab_design *design = lab->options->design;
    uint64_t made, now;

    if (design->bytes)
        return design->bytes(lab);
    design->slabs(lab, &made, &now);
    return now * (PAGE_SIZE << lab->order);
}

/* The lab of a class, with its cache. */
static struct lab *play_lab(struct play *p, int number)
{
    const struct trace_class *class = &p->trace->class[number];
    struct lab *lab = &p->lab[number];
    struct lab_options *o = &p->lab_options[number];
    int status;

    if (lab->options)
        return lab;
    *o = p->base_options;
    o->size = class->size < sizeof(uint64_t) ? sizeof(uint64_t) : class->size;
    o->align = class->align;
    o->classes = strncmp(class->name, "malloc-", strlen("malloc-")) == 0;
    lab_ready(lab, o);
    lab->actors = p->base.actors;
    lab->nr_actors = p->base.nr_actors;
    lab->timing = p->base.timing;
    status = o->design->start(lab);
    if (status != 0)
        exit(status); /* it has said why */
    p->class[number].stride = lab->stride;
    p->class[number].order = lab->order;
    p->class[number].slab_objects = lab->slab_objects;
    p->class[number].capacity = lab->sheaf_capacity;
    return lab;
}

/* ---- events --------------------------------------------------------------------------------- */

/* The actor is on its CPU, with the cache of the class before it, at its time. */
static struct lab_actor *play_begin(struct play *p, const struct trace_event *event, int class)
{
    struct lab_actor *actor = p->base.actors[event->thread];
    struct play_thread *t = &p->thread[event->thread];
    unsigned cpu;

    if (!t->begun) {
        t->begun = true;
        t->first = t->last = event->cpu;
    }
    p->result->moves += t->last != event->cpu;
    t->last = event->cpu;
    cpu = play_cpu(p, event);
    if (p->base.timing) {
        uint64_t gap = event->time - p->time;
        double free = timing_catch_up(actor);
        p->called += (double)(gap < p->options->gap ? gap : p->options->gap);
        p->called = free > p->called ? free : p->called;
        timing_call(actor, p->called);
    }
    p->time = event->time;
    actor->lab = play_lab(p, class);
    lab_move(actor, p->stated = cpu);
    return actor;
}

static uint64_t play_outside(const struct lab_actor *actor)
{
    return actor->count->event[LAB_ALLOC_OUTSIDE] + actor->count->event[LAB_FREE_OUTSIDE];
}

/* After the call: slabs have come or gone only if it was outside the fast path. */
static void play_end(struct play *p, struct lab_actor *actor, int class, uint64_t outside)
{
    struct trace_class_result *c = &p->class[class];
    uint64_t held;

    if (p->base.timing)
        timing_called(actor);
    if (play_outside(actor) != outside) {
        c->outside++;
        held = play_bytes(actor->lab);
        p->held += held - c->held;
        c->held = held;
        if (held > c->peak)
            c->peak = held;
        if (p->held > p->result->peak)
            p->result->peak = p->held;
    }
    p->sum_held += p->held;
    p->sum_live += p->result->live;
}

static void play_free(struct play *p, const struct trace_event *event,
                      const struct trace_object *object)
{
    struct trace_result *r = p->result;
    struct lab_actor *actor;
    uint64_t outside;

    if (object->class == TRACE_LARGE) {
        r->large_live -= object->bytes;
        return;
    }
    actor = play_begin(p, event, object->class);
    outside = play_outside(actor);
    r->frees++;
    r->remote += object->thread != event->thread;
    r->live -= actor->lab->options->size;
    p->class[object->class].live -= actor->lab->options->size;
    lab_free(actor, object->object);
    play_end(p, actor, object->class, outside);
}

static int play_alloc(struct play *p, const struct trace_event *event)
{
    struct trace_object object = {
        .address = event->address, .class = event->class, .thread = event->thread};
    struct trace_class_result *c;
    struct trace_result *r = p->result;
    struct lab_actor *actor;
    uint64_t outside;

    if (event->class == TRACE_LARGE) {
        object.bytes = event->bytes;
        r->large_live += event->bytes;
        if (r->large_live > r->large_peak)
            r->large_peak = r->large_live;
    } else {
        c = &p->class[event->class];
        actor = play_begin(p, event, event->class);
        outside = play_outside(actor);
        object.object = lab_alloc(actor);
        r->allocs++;
        c->allocs++;
        r->live += actor->lab->options->size;
        c->live += actor->lab->options->size;
        if (r->live > r->live_peak)
            r->live_peak = r->live;
        if (c->live > c->live_peak)
            c->live_peak = c->live;
        play_end(p, actor, event->class, outside);
    }
    trace_live_put(&p->live, &object);
    return 0;
}

static int play_events(struct play *p, int classes)
{
    struct trace_event event;
    struct trace_object object;

    while (trace_next(p->trace, &event)) {
        bool there = trace_live_take(&p->live, event.address, &object);
        if (event.class >= classes) /* the file was changed */
            return complain(STATUS_FAILED, "the trace changes while it is read");
        if (event.free && !there)
            p->result->unknown++;
        if (!event.free && there) /* its free is not in the trace, but it was freed */
            p->result->again++;
        if (there)
            play_free(p, &event, &object);
        if (!event.free && play_alloc(p, &event) != 0)
            return STATUS_FAILED;
    }
    return *p->trace->error ? complain(STATUS_FAILED, "%s", p->trace->error) : 0;
}

/* ---- the end -------------------------------------------------------------------------------- */

static uint64_t play_sheaves(const struct play *p, const struct lab *lab, uint64_t made)
{
    bool ours = p->series->design == &lab_stook;

    if (lab->sheaf_capacity == 0)
        return 0;
    return made * ((ours ? PLAY_SHEAF_HEAD : PLAY_KERNEL_SHEAF_HEAD) +
                   lab->sheaf_capacity * sizeof(void *));
}

static void play_sums(struct play *p, int class)
{
    struct trace_result *r = p->result;
    struct lab *lab = &p->lab[class];
    const struct lab_design *design = p->series->design;
    uint64_t sheaves = 0;

    for (unsigned i = 0; i < p->cpus; i++) {
        struct lab_counts *count = &lab->cpus[p->cpu[i]];
        design->read(lab, p->cpu[i], count->design);
        for (unsigned e = 0; e < LAB_EVENTS; e++)
            r->event[e] += count->event[e];
        for (unsigned l = 0; l < 2 && design->locks[l].name; l++) {
            r->lock[l][0] += count->design[design->locks[l].own];
            r->lock[l][1] += count->design[design->locks[l].near];
            r->lock[l][2] += count->design[design->locks[l].far];
        }
        sheaves += count->design[p->sheaf_alloc] - count->design[p->sheaf_free];
        p->class[class].slabs += count->design[p->alloc_slab];
    }
    r->slabs += p->class[class].slabs;
    r->sheaves += play_sheaves(p, lab, sheaves);
    p->class[class].held = play_bytes(lab);
    r->held += p->class[class].held;
}

/* What is out still is freed, and nothing must be missing then. */
static int play_close(struct play *p, int classes)
{
    struct lab_actor *actor = p->base.nr_actors ? p->base.actors[0] : NULL;
    int status = 0;

    for (uint64_t i = 0; i <= p->live.mask; i++) {
        const struct trace_object *object = &p->live.slot[i];
        if (object->address == 0 || object->class == TRACE_LARGE)
            continue;
        p->result->live_objects++;
        actor->lab = &p->lab[object->class];
        actor->lab->timing = NULL;
        lab_move(actor, p->stated);
        lab_free(actor, object->object);
    }
    for (int i = 0; i < classes && status == 0; i++) {
        struct lab *lab = &p->lab[i];
        if (!lab->options)
            continue;
        lab->timing = NULL;
        actor->lab = lab;
        lab_move(actor, p->stated);
        status = p->series->design->stop(lab);
    }
    return status;
}

static void play_result(struct play *p, int classes)
{
    struct trace_result *r = p->result;
    uint64_t operations = r->allocs + r->frees;
    struct timing_result time;

    r->cpus = p->cpus;
    r->nodes = (unsigned)__builtin_popcountll(topology.online_nodes);
    for (int i = 0; i < classes; i++)
        if (p->lab[i].options)
            play_sums(p, i);
    if (operations > 0) {
        r->mean_held = (uint64_t)(p->sum_held / operations);
        r->mean_live = (uint64_t)(p->sum_live / operations);
    }
    if (!p->base.timing)
        return;
    for (unsigned i = 0; i < p->base.nr_actors; i++)
        timing_catch_up(p->base.actors[i]);
    timing_mark(&p->base);
    timing_result(&p->base, &time);
    memcpy(r->spent, time.spent, sizeof(r->spent));
}

static int play_start(struct play *p)
{
    unsigned threads = p->trace->threads;

    p->base_options = (struct lab_options){
        .design = p->series->design,
        .refill = p->series->refill,
        .seed = 1,
        .capacity = p->options->capacity,
        .order = p->options->order,
        .bare = true,
    };
    lab_ready(&p->base, &p->base_options);
    p->stated = lab_cpu_at(0);
    stook_topology_cpu((int)p->stated);
    p->base.actors = lab_memory(&p->base, threads * sizeof(p->base.actors[0]));
    p->base.nr_actors = threads;
    for (unsigned i = 0; i < threads; i++) {
        struct lab_actor *actor = lab_memory(&p->base, sizeof(*actor));
        actor->lab = &p->base;
        actor->number = i;
        actor->random = i;
        p->base.actors[i] = actor;
    }
    p->thread = lab_memory(&p->base, threads * sizeof(p->thread[0]));
    p->lab = lab_memory(&p->base, p->trace->classes * sizeof(p->lab[0]));
    p->lab_options = lab_memory(&p->base, p->trace->classes * sizeof(p->lab_options[0]));
    p->sheaf_alloc = play_event_number(p->series->design, "sheaf_alloc");
    p->sheaf_free = play_event_number(p->series->design, "sheaf_free");
    p->alloc_slab = play_event_number(p->series->design, "alloc_slab");
    play_machine(p);
    p->time = p->trace->summary.begin;
    trace_live_start(&p->live);
    if (p->options->costs) {
        timing_start(&p->base, p->options->costs);
        timing_begin(&p->base);
    }
    return 0;
}

int trace_play(struct trace *trace, const struct trace_options *options,
               const struct sweep_series *series, struct trace_result *result,
               struct trace_class_result *class)
{
    struct play p = {
        .trace = trace, .options = options, .series = series, .result = result, .class = class};
    int status, classes = (int)trace->classes;

    memset(result, 0, sizeof(*result));
    memset(class, 0, (size_t)classes * sizeof(class[0]));
    status = play_start(&p);
    if (status == 0 && !trace_rewind(trace))
        status = complain(STATUS_FAILED, "%s", trace->error);
    if (status == 0)
        status = play_events(&p, classes);
    if (status == 0) {
        play_result(&p, classes);
        status = play_close(&p, classes);
    }
    trace_live_end(&p.live);
    for (int i = 0; i < classes; i++) {
        p.lab[i].timing = NULL;
        if (p.lab[i].options)
            lab_over(&p.lab[i]);
    }
    lab_over(&p.base);
    return status;
}
