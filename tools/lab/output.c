/* SPDX-License-Identifier: MIT */
/*
 * output.c - what a run counted: for people, in the form of the kernel's per-CPU listings; or as one
 * JSON object.  No times: the same seed prints the same bytes.
 */
#include "lab/timing.h"
#include "stook/command.h"

#include "os/topology.h"
#include "text/writer.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

static uint64_t output_steady(const struct lab *lab, enum lab_event event)
{
    return lab->end.all.event[event] - lab->half.all.event[event];
}

static uint64_t output_steady_design(const struct lab *lab, unsigned event)
{
    return lab->end.all.design[event] - lab->half.all.design[event];
}

static uint64_t output_operations(const struct lab *lab)
{
    return lab->end.operations - lab->half.operations;
}

/* Two takings of a shared lock for each sheaf that the objects fill: what either side may need. */
static uint64_t output_budget(const struct lab *lab)
{
    uint64_t n = lab->sheaf_capacity ? lab->sheaf_capacity : 1;

    return 2 * ((output_operations(lab) + n - 1) / n);
}

/* Takings of one lock, or of all (NULL), in the steady half, by distance: own, near, far. */
static uint64_t output_lock(const struct lab *lab, const struct lab_lock *lock, uint64_t by[3])
{
    by[0] = output_steady_design(lab, lock->own);
    by[1] = output_steady_design(lab, lock->near);
    by[2] = output_steady_design(lab, lock->far);
    return by[0] + by[1] + by[2];
}

/* A counter of one CPU by its number: the lab's first, then the design's. */
static uint64_t output_counter(const struct lab_counts *counts, unsigned number)
{
    return number < LAB_EVENTS ? counts->event[number] : counts->design[number - LAB_EVENTS];
}

static const char *output_name(const struct lab *lab, unsigned number)
{
    return number < LAB_EVENTS ? lab_events[number]
                               : lab->options->design->events[number - LAB_EVENTS];
}

/* ---- for people ----------------------------------------------------------------------------- */

void lab_list_counters(const struct lab *lab, const struct lab_counts *cpus, struct writer *w)
{
    const char *name;

    for (unsigned number = 0; (name = output_name(lab, number)) != NULL; number++) {
        uint64_t sum = 0;
        for (unsigned cpu = 0; cpu < topology.cpus; cpu++)
            sum += output_counter(&cpus[cpu], number);
        writer_print(w, "%s:%lu", name, sum);
        for (unsigned cpu = 0; cpu < topology.cpus; cpu++) {
            uint64_t n = output_counter(&cpus[cpu], number);
            if (n > 0)
                writer_print(w, " C%u=%lu", cpu, n);
        }
        writer_print(w, "\n");
    }
}

/* n in a million objects, with three digits behind the point. */
static void output_rate(struct writer *w, int width, uint64_t n, uint64_t of)
{
    uint64_t thousandths = of ? (uint64_t)((__uint128_t)n * 1000000000u / of) : 0;

    writer_print(w, "%*lu.%03u", width - 4, (thousandths / 1000), (unsigned)(thousandths % 1000));
}

static void output_million(const struct lab *lab, struct writer *w, const char *what, uint64_t n)
{
    writer_print(w, "  %-44s", what);
    output_rate(w, 14, n, output_operations(lab));
    writer_print(w, "\n");
}

static void output_locks(const struct lab *lab, struct writer *w)
{
    writer_print(w, "  %-8s %14s %14s %14s %14s\n", "lock", "own node", "near", "far", "all");
    for (const struct lab_lock *lock = lab->options->design->locks; lock->name; lock++) {
        uint64_t by[3], all = output_lock(lab, lock, by);
        writer_print(w, "  %-8s", lock->name);
        for (unsigned i = 0; i < 4; i++) {
            writer_print(w, " ");
            output_rate(w, 14, i < 3 ? by[i] : all, output_operations(lab));
        }
        writer_print(w, "\n");
    }
}

static void output_steady_half(const struct lab *lab, struct writer *w)
{
    uint64_t allocs =
        output_steady(lab, LAB_ALLOC_BARN_LOCKS) + output_steady(lab, LAB_ALLOC_LIST_LOCKS);
    uint64_t frees =
        output_steady(lab, LAB_FREE_BARN_LOCKS) + output_steady(lab, LAB_FREE_LIST_LOCKS);

    writer_print(w, "\nthe second half, %lu operations; in a million:\n", output_operations(lab));
    output_million(lab, w, "allocations that touched a slab",
                   output_steady(lab, LAB_ALLOC_OUTSIDE));
    output_million(lab, w, "frees that touched a slab", output_steady(lab, LAB_FREE_OUTSIDE));
    output_million(lab, w, "slabs allocated", lab->end.slabs_made - lab->half.slabs_made);
    output_million(lab, w, "shared locks taken by allocations", allocs);
    output_million(lab, w, "shared locks taken by frees", frees);
    output_million(lab, w, "two takings for each full sheaf would be", output_budget(lab));
    writer_print(w, "\n");
    output_locks(lab, w);
}

static void output_gone(const struct lab *lab, struct writer *w)
{
    const struct lab_gone *gone = &lab->gone;

    writer_print(w,
                 "\nwent: %lu CPUs, which held %lu sheaves with %lu objects, %lu bytes; "
                 "%lu of the sheaves were left there\n"
                 "went: the memory of %lu nodes; %lu bytes of it came back then\n",
                 gone->cpus, gone->sheaves, gone->objects, (gone->objects * lab->stride),
                 gone->left, gone->memories, gone->node_bytes);
}

/* Tenths of a percent of what all CPUs did but wait for the other side of their queue. */
static unsigned output_share(const struct timing_result *result, double spent)
{
    double all = 0;

    for (unsigned i = 0; i < TIMING_SPENT; i++)
        all += i == TIMING_IDLE ? 0 : result->spent[i];
    return all > 0 ? (unsigned)(spent / all * 1000 + 0.5) : 0;
}

static void output_time(const struct lab *lab, struct writer *w)
{
    const struct timing_place *lock = NULL;
    struct timing_result result;
    double waited;

    timing_result(lab, &result);
    writer_print(w, "\nin the model of time: %lu operations a second; of the CPUs' busy time\n",
                 (uint64_t)(result.operations / result.seconds));
    for (unsigned i = 0; i < TIMING_IDLE; i++) {
        unsigned share = output_share(&result, result.spent[i]);
        writer_print(w, "  %-44s %8u.%u %%\n", timing_spent_names[i], share / 10, share % 10);
    }
    while ((lock = timing_next_lock(lab, lock, &waited))) {
        unsigned share = output_share(&result, waited);
        if (share > 0)
            writer_print(w, "    for node %d's %-*s %8u.%u %%\n", lock->node,
                         lock->node < 10 ? 31 : 30, *lock->name == 'b' ? "barn" : "list",
                         share / 10, share % 10);
    }
}

void lab_list_objects(const struct lab *lab, struct writer *w)
{
    writer_print(w, "object_size:%u\nslab_size:%u\norder:%u\nobjs_per_slab:%u\nsheaf_capacity:%u\n",
                 lab->options->size, lab->stride, lab->order, lab->slab_objects,
                 lab->sheaf_capacity);
}

static void output_text(const struct lab *lab, struct writer *w)
{
    const struct lab_options *o = lab->options;

    writer_print(w, "stook lab %s: %lu operations on %u CPUs of %u nodes, %s\n", o->scenario->name,
                 lab->end.operations, lab_cpus(),
                 (unsigned)__builtin_popcountll(topology.online_nodes),
                 o->threads ? "a thread each" : "played on one thread");
    writer_print(w, "topology         ");
    writer_cell(w, o->topology, 0);
    writer_print(w, "\ndesign           %s, seed %lu\n", o->design->name, o->seed);
    if (lab->pairs)
        writer_print(w, "queues           %u, depth %u, bursts of %u, pairing %s, %u kept\n",
                     lab->pairs, o->depth, o->batch, lab_pairings[o->pairing], o->kept);
    else
        writer_print(w, "working set      %u, bursts of %u\n", o->depth, o->batch);
    lab_list_objects(lab, w);
    lab_list_counters(lab, lab->cpus, w);
    output_steady_half(lab, w);
    if (lab->timing)
        output_time(lab, w);
    if (lab->gone.cpus > 0)
        output_gone(lab, w);
}

static void output_json_options(const struct lab *lab, struct writer *w)
{
    const struct lab_options *o = lab->options;

    output_word(w, "design", o->design->name, ", ");
    output_word(w, "scenario", o->scenario->name, ",\n ");
    output_word(w, "topology", o->topology, ",\n ");
    output_counts(w, ",\n ", {"cpus", lab_cpus()},
                  {"nodes", (uint64_t)__builtin_popcountll(topology.online_nodes)},
                  {"memory_nodes", topology.memories});
    output_flag(w, "threads", o->threads, ", ");
    output_counts(w, ", ", {"seed", o->seed}, {"queues", lab->pairs}, {"depth", o->depth},
                  {"kept", o->kept}, {"batch", o->batch});
    output_word(w, "pairing", lab_pairings[o->pairing], ",\n ");
    output_counts(w, ",\n ", {"object_size", o->size}, {"slab_size", lab->stride},
                  {"order", lab->order}, {"objs_per_slab", lab->slab_objects},
                  {"sheaf_capacity", lab->sheaf_capacity});
}

static void output_json_locks(const struct lab *lab, struct writer *w)
{
    bool first = true;

    writer_print(w, "\"locks_by_distance\": {");
    for (const struct lab_lock *lock = lab->options->design->locks; lock->name; lock++) {
        uint64_t by[3];
        output_lock(lab, lock, by);
        writer_print(w, "%s\"%s\": {", first ? "" : ", ", lock->name);
        output_counts(w, "}", {"own", by[0]}, {"near", by[1]}, {"far", by[2]});
        first = false;
    }
    writer_print(w, "},\n ");
}

static void output_json_steady(const struct lab *lab, struct writer *w)
{
    uint64_t alloc_barns = output_steady(lab, LAB_ALLOC_BARN_LOCKS);
    uint64_t alloc_lists = output_steady(lab, LAB_ALLOC_LIST_LOCKS);
    uint64_t free_barns = output_steady(lab, LAB_FREE_BARN_LOCKS);
    uint64_t free_lists = output_steady(lab, LAB_FREE_LIST_LOCKS);

    output_counts(w, ",\n ", {"operations", lab->end.operations},
                  {"operations_steady", output_operations(lab)});
    output_counts(w, ",\n ", {"alloc_outside", output_steady(lab, LAB_ALLOC_OUTSIDE)},
                  {"free_outside", output_steady(lab, LAB_FREE_OUTSIDE)});
    output_counts(w, ",\n ", {"slabs_allocated_steady", lab->end.slabs_made - lab->half.slabs_made},
                  {"slabs", lab->end.slabs});
    output_counts(w, ",\n ", {"barn_locks", alloc_barns + free_barns},
                  {"list_locks", alloc_lists + free_lists},
                  {"alloc_locks", alloc_barns + alloc_lists},
                  {"free_locks", free_barns + free_lists}, {"lock_budget", output_budget(lab)});
}

static void output_json_gone(const struct lab *lab, struct writer *w)
{
    const struct lab_gone *gone = &lab->gone;

    writer_print(w, "\"gone\": {");
    output_counts(w, "},\n ", {"cpus", gone->cpus}, {"sheaves", gone->sheaves},
                  {"objects", gone->objects}, {"bytes", gone->objects * lab->stride},
                  {"sheaves_left", gone->left}, {"memories", gone->memories},
                  {"node_bytes", gone->node_bytes});
}

void lab_json_sums(const struct lab *lab, const struct lab_counts *cpus, struct writer *w)
{
    const char *name;

    writer_print(w, "{");
    for (unsigned number = 0; (name = output_name(lab, number)) != NULL; number++) {
        uint64_t sum = 0;
        for (unsigned cpu = 0; cpu < topology.cpus; cpu++)
            sum += output_counter(&cpus[cpu], number);
        writer_print(w, "%s", number ? ", " : "");
        writer_key(w, name, sum, "");
    }
    writer_print(w, "}");
}

void lab_json_cpus(const struct lab *lab, const struct lab_counts *cpus, struct writer *w)
{
    const char *name;

    writer_print(w, "[");
    for (unsigned i = 0; i < lab_cpus(); i++) {
        unsigned cpu = lab_cpu_at(i);
        writer_print(w, "%s\n  {", i ? "," : "");
        output_counts(w, "", {"cpu", cpu}, {"node", topology_node(cpu)},
                      {"home", topology_home(cpu)});
        for (unsigned number = 0; (name = output_name(lab, number)) != NULL; number++) {
            writer_print(w, ", ");
            writer_key(w, name, output_counter(&cpus[cpu], number), "");
        }
        writer_print(w, "}");
    }
    writer_print(w, "]");
}

static void output_json_time(const struct lab *lab, struct writer *w)
{
    const struct timing_place *lock = NULL;
    struct timing_result result;
    bool first = true;
    double waited;

    if (!lab->timing)
        return;
    timing_result(lab, &result);
    writer_print(w, "\"time\": {");
    writer_key(w, "operations_a_second", (uint64_t)(result.operations / result.seconds), ", ");
    writer_print(w, "\"permille\": {");
    for (unsigned i = 0; i < TIMING_IDLE; i++)
        writer_key(w, timing_spent_names[i], output_share(&result, result.spent[i]),
                   i + 1 < TIMING_IDLE ? ", " : "}, \"locks\": [");
    while ((lock = timing_next_lock(lab, lock, &waited))) {
        if (output_share(&result, waited) == 0)
            continue;
        writer_print(w, "%s{\"lock\": \"%s\", \"node\": %d, ", first ? "" : ", ", lock->name,
                     lock->node);
        writer_key(w, "permille", output_share(&result, waited), "}");
        first = false;
    }
    writer_print(w, "]},\n ");
}

static void output_json(const struct lab *lab, struct writer *w)
{
    writer_print(w, "{");
    output_json_options(lab, w);
    output_json_steady(lab, w);
    output_json_gone(lab, w);
    output_json_locks(lab, w);
    output_json_time(lab, w);
    writer_print(w, "\"per_cpu\": ");
    lab_json_cpus(lab, lab->cpus, w);
    writer_print(w, "}\n");
}

int lab_print(const struct lab *lab)
{
    struct writer writer;

    output_writer(&writer);
    if (lab->options->json)
        output_json(lab, &writer);
    else
        output_text(lab, &writer);
    (void)writer_finish(&writer);
    return 0;
}
