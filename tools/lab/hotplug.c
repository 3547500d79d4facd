/* SPDX-License-Identifier: MIT */
/*
 * hotplug.c - the CPUs that a program may use change while it runs, as with a cpuset that shrinks and grows.
 * Four times in a run half of the CPUs go, node by node.  With the last CPU of a node its memory goes, too, while
 * another node has some.  The threads continue on other CPUs, with objects from CPUs and nodes that are gone.
 */
#include "lab/lab.h"
#include "stook/command.h"

#include "os/topology.h"

enum { HOTPLUG_CHANGES = 8 };

struct hotplug_machine {
    _Atomic bool busy; /* an actor changes the machine */
    _Atomic unsigned change;
    unsigned cpus;
    uint64_t memory; /* nodes that have some when all is there */
    unsigned cpu[];  /* by node, then by number */
};

struct hotplug {
    struct hotplug_machine *machine;
    unsigned position; /* of its CPU while all are there */
    unsigned n;
    void *object[];
};

/* Which CPUs are there: all, the lower half, all, the upper half, ... */
static bool hotplug_there(const struct hotplug_machine *machine, unsigned position, unsigned change)
{
    bool lower = position < machine->cpus - machine->cpus / 2;

    return change % 4 == 1 ? lower : change % 4 == 3 ? !lower : true;
}

static unsigned hotplug_cpu(const struct hotplug_machine *machine, unsigned position,
                            unsigned change)
{
    unsigned half = machine->cpus / 2;

    if (!hotplug_there(machine, position, change))
        position = change % 4 == 1 ? position % (machine->cpus - half)
                                   : machine->cpus - half + position % half;
    return machine->cpu[position];
}

/* A node with memory and CPUs of which none is there. */
static bool hotplug_node_goes(const struct hotplug_machine *machine, unsigned node, unsigned change)
{
    bool any = false, there = false;

    for (unsigned i = 0; i < machine->cpus; i++)
        if (topology_node(machine->cpu[i]) == node) {
            any = true;
            there |= hotplug_there(machine, i, change);
        }
    return any && !there;
}

/* What comes first, so that there is always something. */
static void hotplug_apply(struct lab_actor *actor, const struct hotplug_machine *machine,
                          unsigned change)
{
    for (int there = 1; there >= 0; there--) {
        for (unsigned i = 0; i < machine->cpus; i++)
            if (hotplug_there(machine, i, change) == there)
                lab_set_cpu(actor, machine->cpu[i], there);
        for (unsigned node = 0; node < TOPOLOGY_NODES_MAX; node++)
            if ((machine->memory >> node & 1) && hotplug_node_goes(machine, node, change) == !there)
                lab_set_memory(actor->lab, node, there);
    }
}

/* The first actor that reaches the time of a change makes it. */
static unsigned hotplug_follow(struct lab_actor *actor, struct hotplug_machine *machine)
{
    uint64_t of, begun = lab_begun(actor, &of);
    unsigned change = (unsigned)(begun * HOTPLUG_CHANGES / of);

    if (atomic_load(&machine->change) < change && !atomic_exchange(&machine->busy, true)) {
        for (unsigned at = atomic_load(&machine->change); at < change;) {
            hotplug_apply(actor, machine, ++at);
            atomic_store(&machine->change, at);
        }
        atomic_store(&machine->busy, false);
    }
    return change;
}

static bool hotplug_step(struct lab_actor *actor)
{
    const struct lab_options *options = actor->lab->options;
    struct hotplug *own = actor->own;
    unsigned change = hotplug_follow(actor, own->machine), n = own->n;

    lab_move(actor, hotplug_cpu(own->machine, own->position, change));
    if (!lab_closing(actor) && n + options->batch <= options->depth && lab_random(actor, 2) == 0) {
        n = lab_claim(actor, options->batch);
        for (unsigned i = 0; i < n; i++)
            own->object[own->n++] = lab_alloc(actor);
        return n > 0;
    }
    lab_shuffle(actor, own->object, own->n);
    for (unsigned i = 0; i < n && (i < options->batch || lab_closing(actor)); i++)
        lab_free(actor, own->object[--own->n]);
    return n > 0;
}

static int hotplug_prepare(struct lab *lab)
{
    unsigned cpus = lab_cpus();
    struct hotplug_machine *machine =
        lab_memory(lab, sizeof(*machine) + cpus * sizeof(machine->cpu[0]));

    if (cpus < 2)
        return complain(STATUS_USAGE, "hotplug needs two CPUs");
    machine->memory = topology.memory_nodes;
    for (unsigned node = 0; node < TOPOLOGY_NODES_MAX; node++)
        for (unsigned i = 0; i < cpus; i++)
            if (topology_node(lab_cpu_at(i)) == node)
                machine->cpu[machine->cpus++] = lab_cpu_at(i);
    for (unsigned i = 0; i < cpus; i++) {
        struct hotplug *own =
            lab_memory(lab, sizeof(*own) + lab->options->depth * sizeof(own->object[0]));
        own->machine = machine;
        own->position = i;
        lab_actor(lab, machine->cpu[i], hotplug_step, own);
    }
    return 0;
}

const struct lab_scenario lab_hotplug = {
    "hotplug",
    "half of the CPUs go and come back, node by node, four times",
    hotplug_prepare,
};
