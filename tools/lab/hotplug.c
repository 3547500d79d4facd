/* SPDX-License-Identifier: MIT */
/*
 * hotplug.c - the CPUs that a program may use change while it runs, as with a cpuset that shrinks and
 * grows: four times in a run half of them go, and threads that were there go on elsewhere, with
 * objects from CPUs that are no more.
 */
#include "lab/lab.h"
#include "stook/command.h"

enum { HOTPLUG_CHANGES = 8 };

struct hotplug {
    unsigned position; /* of its CPU while all are there */
    unsigned n;
    void *object[];
};

/* Which CPUs are there: all, the lower half, all, the upper half, … */
static unsigned hotplug_cpu(unsigned position, unsigned change)
{
    unsigned cpus = lab_cpus(), half = cpus / 2;

    switch (change % 4) {
    case 1:
        return lab_cpu_at(position % (cpus - half));
    case 3:
        return lab_cpu_at(half + position % (cpus - half));
    default:
        return lab_cpu_at(position);
    }
}

static bool hotplug_step(struct lab_actor *actor)
{
    const struct lab_options *options = actor->lab->options;
    struct hotplug *own = actor->own;
    uint64_t of, begun = lab_begun(actor, &of);
    unsigned n = own->n;

    lab_move(actor, hotplug_cpu(own->position, (unsigned)(begun * HOTPLUG_CHANGES / of)));
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
    if (lab_cpus() < 2)
        return complain(STATUS_USAGE, "hotplug needs two CPUs");
    for (unsigned i = 0; i < lab_cpus(); i++) {
        struct hotplug *own =
            lab_memory(lab, sizeof(*own) + lab->options->depth * sizeof(own->object[0]));
        own->position = i;
        lab_actor(lab, lab_cpu_at(i), hotplug_step, own);
    }
    return 0;
}

const struct lab_scenario lab_hotplug = {
    "hotplug",
    "half of the CPUs go and come back, four times",
    hotplug_prepare,
};
