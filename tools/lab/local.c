/* SPDX-License-Identifier: MIT */
/*
 * local.c - every CPU for itself: bursts are allocated and freed, last first or first first, with up
 * to a depth in use.
 */
#include "lab/lab.h"

struct local_own {
    unsigned n;
    void *object[];
};

static bool local_step(struct lab_actor *actor)
{
    const struct lab_options *options = actor->lab->options;
    struct local_own *own = actor->own;
    unsigned n = own->n;

    if (!lab_closing(actor) && n + options->batch <= options->depth && lab_random(actor, 2) == 0) {
        n = lab_claim(actor, options->batch);
        for (unsigned i = 0; i < n; i++)
            own->object[own->n++] = lab_alloc(actor);
        return n > 0;
    }
    if (n > options->batch)
        n = options->batch;
    if (lab_random(actor, 2) == 0) { /* the oldest ones */
        for (unsigned i = 0; i < n; i++)
            lab_free(actor, own->object[i]);
        own->n -= n;
        for (unsigned i = 0; i < own->n; i++)
            own->object[i] = own->object[i + n];
    } else {
        for (unsigned i = 0; i < n; i++)
            lab_free(actor, own->object[--own->n]);
    }
    return n > 0;
}

static int local_prepare(struct lab *lab)
{
    return lab_actor_each(lab, local_step,
                          sizeof(struct local_own) + lab->options->depth * sizeof(void *));
}

const struct lab_scenario lab_local = {
    "local",
    "every CPU allocates and frees its own bursts",
    local_prepare,
};
