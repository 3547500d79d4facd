/* SPDX-License-Identifier: MIT */
/*
 * fork_exec.c - processes start and end.  A fork allocates some hundred objects at once on its CPU.  The
 * child runs on another CPU.  It frees most of them at its exec and allocates new ones, and frees all when it ends.
 */
#include "lab/lab.h"

enum { FORK_EXEC_LEAST = 64, FORK_EXEC_MOST = 256 };

struct fork_exec {
    unsigned n;
    bool ran; /* it has done its exec */
    void *object[FORK_EXEC_MOST];
};

static void fork_exec_take(struct lab_actor *actor, struct fork_exec *process, unsigned n)
{
    n = lab_claim(actor, n);
    while (n-- > 0)
        process->object[process->n++] = lab_alloc(actor);
}

static void fork_exec_drop(struct lab_actor *actor, struct fork_exec *process, unsigned keep)
{
    lab_shuffle(actor, process->object, process->n);
    while (process->n > keep)
        lab_free(actor, process->object[--process->n]);
}

static bool fork_exec_step(struct lab_actor *actor)
{
    struct fork_exec *process = actor->own;
    bool busy = process->n > 0 || !lab_closing(actor);

    if (lab_closing(actor) || (process->n > 0 && process->ran)) {
        fork_exec_drop(actor, process, 0);
        process->ran = false;
    } else if (process->n == 0) {
        fork_exec_take(actor, process,
                       FORK_EXEC_LEAST + lab_random(actor, FORK_EXEC_MOST / 2 - FORK_EXEC_LEAST));
        lab_move(actor, lab_cpu_at(lab_random(actor, lab_cpus()))); /* the child's */
    } else {
        fork_exec_drop(actor, process, process->n / 8);
        fork_exec_take(actor, process, FORK_EXEC_LEAST / 2 + lab_random(actor, FORK_EXEC_LEAST));
        process->ran = true;
    }
    return busy;
}

static int fork_exec_prepare(struct lab *lab)
{
    return lab_actor_each(lab, fork_exec_step, sizeof(struct fork_exec));
}

const struct lab_scenario lab_fork_exec = {
    "fork-exec",
    "bursts of some hundred objects, freed on another CPU",
    fork_exec_prepare,
};
