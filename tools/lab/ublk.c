/* SPDX-License-Identifier: MIT */
/*
 * ublk.c - queues of a block device served by a process: a submitter allocates in bursts, up to a
 * depth in flight; a completer on another CPU takes all queued objects and frees them one by one.
 *
 * As on the machine of the report that it is named after, queue q's submitter is on the CPU at
 * position 2q + 1 and its completer at 2q: CPU c - 1 frees the objects of CPU c.  Other pairings move
 * the completers.
 */
#include "lab/timing.h"
#include "stook/command.h"

#include "os/topology.h"

/*
 * The block layer keeps up to 257 freed bios of each CPU for its next ones (bio_put_percpu_cache,
 * ALLOC_CACHE_MAX).  A CPU that only frees never takes one out again: they stay.  Slabs with nothing but kept
 * bios have no effect.  The report's listing at rest shows some 94 kept bios a completer in slabs that other
 * bios are allocated from (decision 30).  So a completer keeps that many of its first 257 objects.
 */
enum { UBLK_POOL = 257 };

/*
 * If steps are single calls (lab_one_by_one()), a step is one object.  A burst is plugged: it is queued when it
 * is complete, as the block layer does.
 */
struct ublk_submitter {
    struct lab_channel *queue;
    unsigned left, plugged; /* of a burst */
    void *object[];
};

struct ublk_completer {
    struct ublk_submitter *submitter; /* where both are on one CPU */
    void **kept;                      /* objects that it does not give back */
    unsigned seen, nr_kept;           /* of the first so many that it had */
    unsigned queues;
    unsigned at, taken; /* of steps of one call: of which queue a batch is being answered */
    struct lab_channel *queue[];
};

static bool ublk_submit(struct lab_actor *actor)
{
    const struct lab_options *options = actor->lab->options;
    struct ublk_submitter *submitter = actor->own;
    struct lab_channel *queue = submitter->queue;
    unsigned room = options->depth - channel_size(queue), n;

    if (submitter->left == 0) {
        if (room < options->batch)
            return false;
        submitter->left = lab_claim(actor, options->batch);
        for (unsigned i = 0; i < submitter->left; i++)
            timing_work(actor, TIMING_REAP);
    }
    n = lab_one_by_one(actor) && submitter->left > 0 ? 1 : submitter->left;
    submitter->left -= n;
    for (unsigned i = 0; i < n; i++) {
        timing_work(actor, TIMING_SUBMIT);
        submitter->object[submitter->plugged++] = lab_alloc(actor);
    }
    for (unsigned i = 0; i < submitter->plugged && submitter->left == 0; i++)
        channel_send(queue, submitter->object[i]);
    if (submitter->left == 0)
        submitter->plugged = 0;
    return n > 0;
}

static void ublk_free(struct lab_actor *actor, struct ublk_completer *completer, void *object)
{
    if (completer->seen < UBLK_POOL && lab_random(actor, UBLK_POOL - completer->seen++) <
                                           actor->lab->options->kept - completer->nr_kept)
        completer->kept[completer->nr_kept++] = object;
    else
        lab_free(actor, object);
}

/* A batch is taken, and answered when all of it was seen to: as a server does. */
static bool ublk_serve(struct lab_actor *actor)
{
    struct ublk_completer *completer = actor->own;

    for (unsigned i = 0; completer->taken == 0 && i < completer->queues; i++) {
        unsigned n = channel_size(completer->queue[completer->at]);
        if (n == 0)
            completer->at = (completer->at + 1) % completer->queues;
        completer->taken = n < actor->lab->options->batch ? n : actor->lab->options->batch;
        for (n = completer->taken; n > 0; n--)
            timing_work(actor, TIMING_FETCH);
    }
    if (completer->taken == 0)
        return false;
    completer->taken--;
    timing_work(actor, TIMING_COMPLETE);
    ublk_free(actor, completer, channel_receive(completer->queue[completer->at]));
    if (completer->taken == 0)
        completer->at = (completer->at + 1) % completer->queues;
    return true;
}

static bool ublk_complete(struct lab_actor *actor)
{
    struct ublk_completer *completer = actor->own;
    bool busy = false;

    if (lab_one_by_one(actor) && !lab_closing(actor))
        return ublk_serve(actor);
    while (lab_closing(actor) && completer->nr_kept > 0)
        lab_free(actor, completer->kept[--completer->nr_kept]);
    for (unsigned i = 0; i < completer->queues; i++) {
        struct lab_channel *queue = completer->queue[i];
        for (unsigned n = channel_size(queue); n > 0; n--) {
            ublk_free(actor, completer, channel_receive(queue));
            busy = true;
        }
    }
    return busy;
}

/* Both on one CPU: a thread that does either. */
static bool ublk_both(struct lab_actor *actor)
{
    struct ublk_completer *completer = actor->own;
    bool busy;

    if (completer->submitter->left == 0 && lab_random(actor, 2) == 0)
        return ublk_complete(actor);
    actor->own = completer->submitter;
    busy = ublk_submit(actor);
    actor->own = completer;
    return busy || (lab_closing(actor) && ublk_complete(actor));
}

/* The completers' positions moved by so many queues that every pair is on two nodes; 0: none does. */
static unsigned ublk_cross(unsigned queues)
{
    for (unsigned turn = 0; turn < queues; turn++) {
        unsigned by = (queues / 2 + turn) % queues, apart = 0;
        for (unsigned q = 0; q < queues; q++)
            apart += topology_node(lab_cpu_at(2 * q + 1)) !=
                     topology_node(lab_cpu_at(2 * ((q + by) % queues)));
        if (apart == queues)
            return by;
    }
    return 0;
}

/*
 * All-to-one: submitters spread over the nodes that have CPUs, completers on the CPUs of one node
 * that submit nothing, or on all of them.
 */
static unsigned ublk_spread(unsigned q, unsigned queues)
{
    return lab_cpu_at((unsigned)((uint64_t)(2 * q + 1) * lab_cpus() / (2 * queues)));
}

static unsigned ublk_completers(const struct lab *lab, unsigned queues, unsigned *cpus)
{
    unsigned n = 0, all = 0, cpu;

    for (unsigned position = 0; position < lab_cpus(); position++) {
        bool submits = false;
        cpu = lab_cpu_at(position);
        if (topology_node(cpu) != (unsigned)lab->options->completers)
            continue;
        for (unsigned q = 0; q < queues; q++)
            submits |= ublk_spread(q, queues) == cpu;
        if (!submits)
            cpus[n++] = cpu;
        all++;
    }
    if (n > 0 || all == 0)
        return n;
    for (unsigned position = 0; position < lab_cpus(); position++)
        if (topology_node(cpu = lab_cpu_at(position)) == (unsigned)lab->options->completers)
            cpus[n++] = cpu;
    return n;
}

static struct ublk_submitter *ublk_submitter(struct lab *lab, struct lab_channel *queue)
{
    struct ublk_submitter *submitter =
        lab_memory(lab, sizeof(*submitter) + lab->options->batch * sizeof(submitter->object[0]));

    submitter->queue = queue;
    return submitter;
}

static struct ublk_completer *ublk_completer(struct lab *lab, unsigned queues)
{
    struct ublk_completer *completer =
        lab_memory(lab, sizeof(*completer) + queues * sizeof(completer->queue[0]));

    completer->kept = lab_memory(lab, UBLK_POOL * sizeof(completer->kept[0]));
    return completer;
}

static int ublk_all_to_one(struct lab *lab, unsigned queues)
{
    unsigned *cpus = lab_memory(lab, lab_cpus() * sizeof(*cpus)), n;
    struct ublk_completer **completer;

    n = ublk_completers(lab, queues, cpus);
    if (n == 0)
        return complain(STATUS_USAGE, "node %d has no CPUs for the completers",
                        lab->options->completers);
    if (n > queues)
        n = queues;
    completer = lab_memory(lab, n * sizeof(completer[0]));
    for (unsigned q = 0; q < queues; q++) {
        struct lab_channel *queue = lab_channel(lab, lab->options->depth);
        if (q < n)
            completer[q] = ublk_completer(lab, queues);
        completer[q % n]->queue[completer[q % n]->queues++] = queue;
        lab_actor(lab, ublk_spread(q, queues), ublk_submit, ublk_submitter(lab, queue));
    }
    for (unsigned i = 0; i < n; i++)
        lab_actor(lab, cpus[i], ublk_complete, completer[i]);
    return 0;
}

static int ublk_prepare(struct lab *lab)
{
    const enum lab_pairing pairing = lab->options->pairing;
    unsigned queues = lab_pairs(lab), by = 0;

    if (queues > lab_cpus() / 2 && lab_cpus() > 1)
        return complain(STATUS_USAGE, "%u queues need %u CPUs; the topology has %u", queues,
                        2 * queues, lab_cpus());
    lab->pairs = queues;
    if (pairing == LAB_ALL_TO_ONE)
        return ublk_all_to_one(lab, queues);
    if (pairing == LAB_CROSS_NODE && (by = ublk_cross(queues)) == 0)
        return complain(STATUS_USAGE, "the topology cannot put each of %u pairs on two nodes",
                        queues);
    for (unsigned q = 0; q < queues; q++) {
        struct ublk_completer *completer = ublk_completer(lab, 1);
        unsigned submitter = lab_cpu_at(lab_cpus() > 1 ? 2 * q + 1 : 0);
        completer->queues = 1;
        completer->queue[0] = lab_channel(lab, lab->options->depth);
        if (pairing == LAB_SAME || lab_cpus() == 1) {
            completer->submitter = ublk_submitter(lab, completer->queue[0]);
            lab_actor(lab, submitter, ublk_both, completer);
            continue;
        }
        lab_actor(lab, submitter, ublk_submit, ublk_submitter(lab, completer->queue[0]));
        lab_actor(lab, lab_cpu_at(2 * ((q + by) % queues)), ublk_complete, completer);
    }
    return 0;
}

const struct lab_scenario lab_ublk = {
    "ublk",
    "bursts allocated on one CPU, freed one by one on another (--pairing)",
    ublk_prepare,
};
