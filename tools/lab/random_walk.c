/* SPDX-License-Identifier: MIT */
/*
 * random_walk.c - threads that the scheduler moves: each has a working set that it turns over object
 * by object, and after every batch it is on another CPU.
 */
#include "lab/lab.h"

struct random_walk {
    unsigned n;
    void *object[];
};

static bool random_walk_step(struct lab_actor *actor)
{
    const struct lab_options *options = actor->lab->options;
    struct random_walk *own = actor->own;
    bool busy = own->n > 0 || !lab_closing(actor);

    lab_move(actor, lab_cpu_at(lab_random(actor, lab_cpus())));
    for (unsigned i = 0; i < options->batch && !lab_closing(actor); i++) {
        if (own->n < options->depth && lab_random(actor, options->depth) >= own->n / 2) {
            if (lab_claim(actor, 1) == 0)
                break;
            own->object[own->n++] = lab_alloc(actor);
        } else {
            unsigned k = lab_random(actor, own->n);
            lab_free(actor, own->object[k]);
            own->object[k] = own->object[--own->n];
        }
    }
    while (lab_closing(actor) && own->n > 0)
        lab_free(actor, own->object[--own->n]);
    return busy;
}

static int random_walk_prepare(struct lab *lab)
{
    return lab_actor_each(lab, random_walk_step,
                          sizeof(struct random_walk) + lab->options->depth * sizeof(void *));
}

const struct lab_scenario lab_random_walk = {
    "random-walk",
    "threads with a working set, on another CPU after every batch",
    random_walk_prepare,
};
